"""OpenAI's own client, unmodified: a stored response is streamed again from each of its numbers, in both ways.

Arguments: base URL up to and including /v1, and the response's id.
"""

import sys

import openai
from reporting import report


def main(base_url: str, response_id: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0)
    whole = [event.to_dict() for event in client.responses.retrieve(response_id, stream=True)]
    report(whole=whole)
    rests = []
    for after in range(len(whole)):
        rest = client.responses.retrieve(response_id, stream=True, starting_after=after)
        with client.responses.stream(response_id=response_id, starting_after=after) as stream:
            seen = [event.sequence_number for event in stream]
            final = stream.get_final_response()
        rests.append([[event.to_dict() for event in rest], seen, final.output_text])
    report(rests=rests, read=client.responses.retrieve(response_id).to_dict())


main(*sys.argv[1:])
