"""Which model answers."""

from turnstone.adapters.offline import OfflineInference
from turnstone.config import OFFLINE
from turnstone.ports import Inference


def build_inference(model_url: str, api_key: str | None, timeout_s: float) -> Inference:
    """Return the model at that address, or the offline one if that is the name given."""
    if model_url == OFFLINE:
        return OfflineInference()
    from turnstone.adapters.openai_compatible import OpenAICompatibleInference  # urllib3: only where a model is called
    from turnstone.adapters.prompted_tools import PromptedTools

    return PromptedTools(OpenAICompatibleInference(model_url, api_key, timeout_s))
