// Models: listed, registered, and asked directly in both of the client's dialects.
import { client, user } from './llama_stack_agents.mjs';
import { EMBEDDING, GUARD, MODEL, all, raisedBy } from './scenario.mjs';

const properties = { city: { type: 'string' } };
const schema = { type: 'object', properties, required: ['city'], additionalProperties: false };
const tool = { tool_name: 'add', parameters: { a: { param_type: 'int', required: true } } };
const strictTool = { type: 'function', function: { name: 'add', parameters: schema, strict: true } };
const refused = async (call) => (await raisedBy(call)).slice(0, 2);
const create = (body) => client.chat.completions.create({ model: MODEL, ...body });
const chat = (body) => client.inference.chatCompletion({ model_id: MODEL, ...body });
const choicesOf = (chunks) => chunks.flatMap((chunk) => chunk.choices);
const called = (call) => [call.function.name, call.function.arguments];

export const modelRows = {
  async models_are_listed() {
    const listed = await client.models.list();
    const model = listed.find((each) => each.identifier === MODEL);
    return [Boolean(model), model.model_type, (await client.models.retrieve(MODEL)).identifier];
  },

  async models_are_listed_in_openais_words() {
    const model = (await client.models.openai.list()).find((each) => each.id === MODEL);
    return [model.id, model.object, Number.isInteger(model.created), typeof model.owned_by === 'string'];
  },

  async model_comes_and_goes() {
    await client.models.register({ model_id: 'nickname', provider_model_id: MODEL });
    const listed = await client.models.list();
    await client.models.unregister('nickname');
    const gone = await refused(() => client.models.retrieve('nickname'));
    return [listed.some((model) => model.identifier === 'nickname'), gone];
  },

  async inference_chat() {
    const { completion_message: whole, metrics } = await chat({ messages: user('hello') });
    const events = (await all(await chat({ messages: user('hello'), stream: true }))).map((chunk) => chunk.event);
    return {
      whole: [whole.content, whole.stop_reason],
      metrics: metrics.map((metric) => metric.metric).sort(),
      kinds: [events[0].event_type, events.at(-1).event_type],
      text: events.map((event) => event.delta.text ?? '').join(''),
      stop_reason: events.at(-1).stop_reason,
    };
  },

  async inference_chat_with_tools() {
    const asked = { messages: user('call add {"a": 3}'), tools: [tool] };
    const whole = (await chat(asked)).completion_message.tool_calls;
    const deltas = (await all(await chat({ ...asked, stream: true }))).map((chunk) => chunk.event.delta);
    const calls = deltas.filter((delta) => delta.type === 'tool_call').map((delta) => delta.tool_call);
    return [whole, calls].map((some) => some.map((call) => [call.tool_name, call.arguments]));
  },

  async inference_chat_with_a_schema() {
    const response_format = { type: 'json_schema', json_schema: schema };
    return JSON.parse((await chat({ messages: user('json'), response_format })).completion_message.content);
  },

  async inference_completion() {
    const asked = { model_id: MODEL, content: 'Once upon' };
    const whole = await client.inference.completion(asked);
    const chunks = await all(await client.inference.completion({ ...asked, stream: true }));
    const text = chunks.map((chunk) => chunk.delta).join('');
    return [Boolean(text), text === whole.content, whole.stop_reason, chunks.at(-1).stop_reason];
  },

  async inference_embeddings() {
    return (await client.inference.embeddings({ model_id: EMBEDDING, contents: ['one', 'three'] })).embeddings;
  },

  async openai_chat() {
    const [whole] = (await create({ messages: user('hello') })).choices;
    const choices = choicesOf(await all(await create({ messages: user('hello'), stream: true })));
    return {
      whole: [whole.message.content, whole.finish_reason],
      text: choices.map((choice) => choice.delta.content ?? '').join(''),
      finish: choices.at(-1).finish_reason,
    };
  },

  async openai_chat_with_strict_tools() {
    const asked = { messages: user('call add {"city": "Oslo"}'), tools: [strictTool] };
    const whole = (await create(asked)).choices[0].message.tool_calls;
    const choices = choicesOf(await all(await create({ ...asked, stream: true })));
    const calls = choices.flatMap((choice) => choice.delta.tool_calls ?? []).filter((call) => call.function.name);
    return [whole, calls].map((some) => some.map(called));
  },

  async openai_chat_with_a_schema() {
    const response_format = { type: 'json_schema', json_schema: { name: 'place', schema, strict: true } };
    return JSON.parse((await create({ messages: user('json'), response_format })).choices[0].message.content);
  },

  async openai_chat_with_what_a_provider_knows() {
    const named = [{ role: 'user', content: 'hello', name: 'ann' }];
    const passedOn = { top_k: 5, chat_template_kwargs: { enable_thinking: false } };
    const whole = await create({ messages: named, user: 'u1', logprobs: true, seed: 3, ...passedOn });
    return whole.choices[0].message.content;
  },

  async openai_chat_refused() {
    return {
      n: await refused(() => create({ messages: user('x'), n: 2 })),
      no_messages: await refused(() => create({ messages: [] })),
      busy: await refused(() => create({ messages: user('fail 429') })),
      broken: await refused(() => create({ messages: user('fail 500') })),
    };
  },

  async openai_completion() {
    const asked = { model: MODEL, prompt: 'Once upon' };
    const [whole] = (await client.completions.create(asked)).choices;
    const choices = choicesOf(await all(await client.completions.create({ ...asked, stream: true })));
    const text = choices.map((choice) => choice.text).join('');
    return [Boolean(text), text === whole.text, whole.finish_reason, choices.at(-1).finish_reason];
  },

  async openai_embeddings() {
    const embedded = await client.embeddings.create({ model: EMBEDDING, input: ['one', 'three'] });
    return [embedded.data.map((entry) => entry.embedding), embedded.usage.total_tokens];
  },

  async stored_chat_completions() {
    const made = await create({ messages: user('hello'), store: true });
    const read = await client.chat.completions.retrieve(made.id);
    const listed = (await client.chat.completions.list({ limit: 100, model: MODEL })).data.map((each) => each.id);
    const question = read.input_messages.at(-1).content;
    return [listed.includes(made.id), read.choices[0].message.content, question, listed.includes(GUARD)];
  },
};
