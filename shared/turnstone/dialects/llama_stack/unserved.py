"""Methods of the Llama Stack clients that this server does not have, with alternatives where there are any.

Source: the resources of `llama-stack-client` 0.1.9 to 0.3.5, which use some under another prefix, and of 0.0.53 to
0.0.63, which prefix every path with `/alpha`.
"""

from turnstone.dialects.unserved import Group, rows_of
from turnstone.domain.unserved import Unserved

MODEL = "ask a model in a chat: POST /v1/openai/v1/chat/completions or POST /v1/inference/chat-completion"
TURN = "ask an agent in a turn: POST /v1/agents/{agent_id}/session/{session_id}/turn"
DOCUMENT = "read GET /v1/openapi.json, which lists the routes"
TODAY = "a newer llama-stack-client has this, under /v1"
OWN_API, OWN_BETA, OWN_ALPHA = ("/v1/openai/v1", "/v1"), ("/v1", "/v1beta"), ("/v1", "/v1alpha")
V1, ALPHA = ("/v1",), ("/alpha",)

GROUPS: tuple[Group, ...] = (
    (
        OWN_API,
        MODEL,
        """
        POST /moderations moderations.create
        """,
    ),
    (
        V1,
        MODEL,
        """
        POST /inference/batch-chat-completion inference.batch_chat_completion
        POST /inference/batch-completion inference.batch_completion
        POST /batch-inference/chat-completion batch_inference.chat_completion
        POST /batch-inference/completion batch_inference.completion
        """,
    ),
    (
        V1,
        "",
        """
        GET /scoring-functions scoring_functions.list
        POST /scoring-functions scoring_functions.register
        GET /scoring-functions/{scoring_fn_id} scoring_functions.retrieve
        POST /scoring/score scoring.score
        POST /scoring/score-batch scoring.score_batch
        POST /synthetic-data-generation/generate synthetic_data_generation.generate
        """,
    ),
    (
        OWN_ALPHA,
        "",
        """
        POST /inference/rerank inference.rerank
        GET /eval/benchmarks benchmarks.list
        POST /eval/benchmarks benchmarks.register
        GET /eval/benchmarks/{benchmark_id} benchmarks.retrieve
        POST /eval/benchmarks/{benchmark_id}/evaluations eval.evaluate_rows,eval.evaluate_rows_alpha
        POST /eval/benchmarks/{benchmark_id}/jobs eval.run_eval,eval.run_eval_alpha
        GET /eval/benchmarks/{benchmark_id}/jobs/{job_id} eval.jobs.status
        DELETE /eval/benchmarks/{benchmark_id}/jobs/{job_id} eval.jobs.cancel
        GET /eval/benchmarks/{benchmark_id}/jobs/{job_id}/result eval.jobs.retrieve
        GET /post-training/job/artifacts post_training.job.artifacts
        POST /post-training/job/cancel post_training.job.cancel
        GET /post-training/job/status post_training.job.status
        GET /post-training/jobs post_training.job.list
        POST /post-training/preference-optimize post_training.preference_optimize
        POST /post-training/supervised-fine-tune post_training.supervised_fine_tune
        POST /telemetry/events telemetry.log_event
        POST /telemetry/metrics/{metric_name} telemetry.query_metrics
        POST /telemetry/spans telemetry.query_spans
        POST /telemetry/spans/export telemetry.save_spans_to_dataset
        POST /telemetry/spans/{span_id}/tree telemetry.get_span_tree
        POST /telemetry/traces telemetry.query_traces
        GET /telemetry/traces/{trace_id} telemetry.get_trace
        GET /telemetry/traces/{trace_id}/spans/{span_id} telemetry.get_span
        """,
    ),
    (
        OWN_BETA,
        "",
        """
        GET /datasets datasets.list
        POST /datasets datasets.register
        GET /datasets/{dataset_id} datasets.retrieve
        DELETE /datasets/{dataset_id} datasets.unregister
        GET /datasetio/iterrows/{dataset_id} datasets.iterrows
        POST /datasetio/append-rows/{dataset_id} datasets.appendrows
        """,
    ),
    (V1, DOCUMENT, "GET /inspect/routes routes.list"),
    (
        ALPHA,
        TODAY,
        """
        POST /batch-inference/chat-completion batch_inference.chat_completion
        POST /batch-inference/completion batch_inference.completion
        POST /inference/chat-completion inference.chat_completion
        POST /inference/completion inference.completion
        POST /inference/embeddings inference.embeddings
        GET /models/list models.list
        GET /models/get models.retrieve
        POST /models/register models.register
        POST /models/unregister models.unregister
        GET /providers/list providers.list
        GET /routes/list routes.list
        POST /safety/run-shield safety.run_shield
        GET /shields/list shields.list
        GET /shields/get shields.retrieve
        POST /shields/register shields.register
        """,
    ),
    (
        ALPHA,
        "",
        """
        GET /datasetio/get-rows-paginated datasetio.get_rows_paginated
        POST /datasetio/append-rows datasetio.append_rows
        GET /datasets/list datasets.list
        GET /datasets/get datasets.retrieve
        POST /datasets/register datasets.register
        POST /datasets/unregister datasets.unregister
        POST /eval/evaluate-rows eval.evaluate_rows
        POST /eval/run-eval eval.run_eval
        GET /eval/job/status eval.jobs.status
        GET /eval/job/result eval.jobs.retrieve
        POST /eval/job/cancel eval.jobs.cancel
        GET /eval-tasks/list eval_tasks.list
        GET /eval-tasks/get eval_tasks.retrieve
        POST /eval-tasks/register eval_tasks.register
        GET /post-training/job/artifacts post_training.job.artifacts
        GET /post-training/job/logs post_training.job.logs
        GET /post-training/job/status post_training.job.status
        GET /post-training/jobs post_training.job.list
        POST /post-training/job/cancel post_training.job.cancel
        POST /post-training/preference-optimize post_training.preference_optimize
        POST /post-training/supervised-fine-tune post_training.supervised_fine_tune
        POST /scoring/score scoring.score
        POST /scoring/score-batch scoring.score_batch
        GET /scoring-functions/list scoring_functions.list
        GET /scoring-functions/get scoring_functions.retrieve
        POST /scoring-functions/register scoring_functions.register
        POST /synthetic-data-generation/generate synthetic_data_generation.generate
        GET /telemetry/get-trace telemetry.get_trace
        POST /telemetry/get-span-tree telemetry.get_span_tree
        POST /telemetry/log-event telemetry.log_event
        POST /telemetry/query-spans telemetry.query_spans
        POST /telemetry/query-traces telemetry.query_traces
        POST /telemetry/save-spans-to-dataset telemetry.save_spans_to_dataset
        """,
    ),
)


def unserved() -> tuple[Unserved, ...]:
    """Return all methods of the Llama Stack clients that are not served here."""
    return tuple(rows_of(GROUPS))
