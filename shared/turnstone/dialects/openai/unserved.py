"""Methods of OpenAI's client that this server does not have, except those of Llama Stack's clients.

Source: the resources of `openai` 3.54.0.
"""

from turnstone.dialects.unserved import Group, rows_of
from turnstone.domain.unserved import Unserved

PREFIXES = ("/v1/openai/v1", "/v1")
AGENT = "make an agent, open a session of it and ask it in a turn: POST /v1/agents"
TURN = "ask an agent in a turn: POST /v1/agents/{agent_id}/session/{session_id}/turn"
IMAGES = "an agent with the toolgroup builtin::photogen makes images, where the operator names a model that does"
KEYS = "the operator of this server makes keys and reads what was spent by its command line"
GROUPS: tuple[Group, ...] = (
    (
        PREFIXES,
        "",
        """
        POST /audio/speech audio.speech.create
        POST /audio/transcriptions audio.transcriptions.create
        POST /audio/translations audio.translations.create
        /batches batches: list create retrieve
        POST /batches/{batch_id}/cancel batches.cancel
        /containers containers: list create retrieve delete
        /containers/{container_id}/files containers.files: list create retrieve delete
        GET /containers/{container_id}/files/{file_id}/content containers.files.content.retrieve
        POST /content_provenance_checks content_provenance_checks.create
        /evals evals: list create retrieve update delete
        /evals/{eval_id}/runs evals.runs: list create retrieve delete
        POST /evals/{eval_id}/runs/{run_id} evals.runs.cancel
        /evals/{eval_id}/runs/{run_id}/output_items evals.runs.output_items: list retrieve
        POST /fine_tuning/alpha/graders/run fine_tuning.alpha.graders.run
        POST /fine_tuning/alpha/graders/validate fine_tuning.alpha.graders.validate
        POST /fine_tuning/checkpoints/{checkpoint}/permissions fine_tuning.checkpoints.permissions.create
        GET /fine_tuning/checkpoints/{checkpoint}/permissions \
            fine_tuning.checkpoints.permissions.list,fine_tuning.checkpoints.permissions.retrieve
        DELETE /fine_tuning/checkpoints/{checkpoint}/permissions/{id} fine_tuning.checkpoints.permissions.delete
        /fine_tuning/jobs fine_tuning.jobs: list create retrieve
        POST /fine_tuning/jobs/{job_id}/cancel fine_tuning.jobs.cancel
        POST /fine_tuning/jobs/{job_id}/pause fine_tuning.jobs.pause
        POST /fine_tuning/jobs/{job_id}/resume fine_tuning.jobs.resume
        GET /fine_tuning/jobs/{job_id}/checkpoints fine_tuning.jobs.checkpoints.list
        GET /fine_tuning/jobs/{job_id}/events fine_tuning.jobs.list_events
        /skills skills: list create retrieve update delete
        GET /skills/{skill_id}/content skills.content.retrieve
        /skills/{skill_id}/versions skills.versions: list create retrieve delete
        GET /skills/{skill_id}/versions/{version}/content skills.versions.content.retrieve
        /videos videos: list create retrieve delete
        POST /videos/characters videos.create_character
        GET /videos/characters/{character_id} videos.get_character
        POST /videos/edits videos.edit
        POST /videos/extensions videos.extend
        GET /videos/{video_id}/content videos.download_content
        POST /videos/{video_id}/remix videos.remix
        GET /realtime realtime.connect
        POST /realtime/calls realtime.calls.create
        POST /realtime/calls/{call_id}/accept realtime.calls.accept
        POST /realtime/calls/{call_id}/hangup realtime.calls.hangup
        POST /realtime/calls/{call_id}/refer realtime.calls.refer
        POST /realtime/calls/{call_id}/reject realtime.calls.reject
        POST /realtime/client_secrets realtime.client_secrets.create
        POST /realtime/sessions beta.realtime.sessions.create
        POST /realtime/transcription_sessions beta.realtime.transcription_sessions.create
        """,
    ),
    (
        PREFIXES,
        IMAGES,
        """
        POST /images/edits images.edit
        POST /images/generations images.generate
        POST /images/variations images.create_variation
        """,
    ),
    (
        # each is served below both prefixes, as the served ones of responses
        ("/v1/openai/v1",),
        TURN,
        """
        POST /responses/compact responses.compact
        POST /responses/input_tokens responses.input_tokens.count
        """,
    ),
    (
        PREFIXES,
        AGENT,
        """
        /assistants beta.assistants: list create retrieve update delete
        /threads beta.threads: create retrieve update delete
        POST /threads/runs beta.threads.create_and_run
        /threads/{thread_id}/messages beta.threads.messages: list create retrieve update delete
        /threads/{thread_id}/runs beta.threads.runs: list create retrieve update
        POST /threads/{thread_id}/runs/{run_id}/cancel beta.threads.runs.cancel
        POST /threads/{thread_id}/runs/{run_id}/submit_tool_outputs beta.threads.runs.submit_tool_outputs
        /threads/{thread_id}/runs/{run_id}/steps beta.threads.runs.steps: list retrieve
        POST /chatkit/sessions beta.chatkit.sessions.create
        POST /chatkit/sessions/{session_id}/cancel beta.chatkit.sessions.cancel
        /chatkit/threads beta.chatkit.threads: list retrieve delete
        GET /chatkit/threads/{thread_id}/items beta.chatkit.threads.list_items
        """,
    ),
    (
        PREFIXES,
        KEYS,
        """
        /organization/admin_api_keys admin.organization.admin_api_keys: list create retrieve delete
        GET /organization/audit_logs admin.organization.audit_logs.list
        /organization/certificates admin.organization.certificates: list create retrieve update delete
        POST /organization/certificates/activate admin.organization.certificates.activate
        POST /organization/certificates/deactivate admin.organization.certificates.deactivate
        GET /organization/data_retention admin.organization.data_retention.retrieve
        POST /organization/data_retention admin.organization.data_retention.update
        /organization/groups admin.organization.groups: list create retrieve update delete
        /organization/groups/{group_id}/roles admin.organization.groups.roles: list create retrieve delete
        /organization/groups/{group_id}/users admin.organization.groups.users: list create retrieve delete
        /organization/invites admin.organization.invites: list create retrieve delete
        /organization/projects admin.organization.projects: list create retrieve update
        POST /organization/projects/{project_id}/archive admin.organization.projects.archive
        /organization/projects/{project_id}/api_keys admin.organization.projects.api_keys: list retrieve delete
        GET /organization/projects/{project_id}/certificates admin.organization.projects.certificates.list
        POST /organization/projects/{project_id}/certificates/activate \
            admin.organization.projects.certificates.activate
        POST /organization/projects/{project_id}/certificates/deactivate \
            admin.organization.projects.certificates.deactivate
        GET /organization/projects/{project_id}/data_retention admin.organization.projects.data_retention.retrieve
        POST /organization/projects/{project_id}/data_retention admin.organization.projects.data_retention.update
        /organization/projects/{project_id}/groups admin.organization.projects.groups: list create retrieve delete
        GET /organization/projects/{project_id}/hosted_tool_permissions \
            admin.organization.projects.hosted_tool_permissions.retrieve
        POST /organization/projects/{project_id}/hosted_tool_permissions \
            admin.organization.projects.hosted_tool_permissions.update
        GET /organization/projects/{project_id}/model_permissions \
            admin.organization.projects.model_permissions.retrieve
        POST /organization/projects/{project_id}/model_permissions \
            admin.organization.projects.model_permissions.update
        DELETE /organization/projects/{project_id}/model_permissions \
            admin.organization.projects.model_permissions.delete
        GET /organization/projects/{project_id}/rate_limits admin.organization.projects.rate_limits.list_rate_limits
        POST /organization/projects/{project_id}/rate_limits/{limit_id} \
            admin.organization.projects.rate_limits.update_rate_limit
        /organization/projects/{project_id}/service_accounts \
            admin.organization.projects.service_accounts: list create retrieve update delete
        POST /organization/projects/{project_id}/service_accounts/{account_id}/api_keys \
            admin.organization.projects.service_accounts.api_keys.create
        /organization/projects/{project_id}/spend_alerts \
            admin.organization.projects.spend_alerts: list create retrieve update delete
        GET /organization/projects/{project_id}/spend_limit admin.organization.projects.spend_limit.retrieve
        POST /organization/projects/{project_id}/spend_limit admin.organization.projects.spend_limit.update
        DELETE /organization/projects/{project_id}/spend_limit admin.organization.projects.spend_limit.delete
        /organization/projects/{project_id}/users \
            admin.organization.projects.users: list create retrieve update delete
        /organization/roles admin.organization.roles: list create retrieve update delete
        /organization/spend_alerts admin.organization.spend_alerts: list create retrieve update delete
        GET /organization/spend_limit admin.organization.spend_limit.retrieve
        POST /organization/spend_limit admin.organization.spend_limit.update
        DELETE /organization/spend_limit admin.organization.spend_limit.delete
        GET /organization/costs admin.organization.usage.costs
        GET /organization/usage/audio_speeches admin.organization.usage.audio_speeches
        GET /organization/usage/audio_transcriptions admin.organization.usage.audio_transcriptions
        GET /organization/usage/code_interpreter_sessions admin.organization.usage.code_interpreter_sessions
        GET /organization/usage/completions admin.organization.usage.completions
        GET /organization/usage/embeddings admin.organization.usage.embeddings
        GET /organization/usage/file_search_calls admin.organization.usage.file_search_calls
        GET /organization/usage/images admin.organization.usage.images
        GET /organization/usage/moderations admin.organization.usage.moderations
        GET /organization/usage/vector_stores admin.organization.usage.vector_stores
        GET /organization/usage/web_search_calls admin.organization.usage.web_search_calls
        /organization/users admin.organization.users: list retrieve update delete
        /organization/users/{user_id}/roles admin.organization.users.roles: list create retrieve delete
        /projects/{project_id}/groups/{group_id}/roles \
            admin.organization.projects.groups.roles: list create retrieve delete
        /projects/{project_id}/roles admin.organization.projects.roles: list create retrieve update delete
        /projects/{project_id}/users/{user_id}/roles \
            admin.organization.projects.users.roles: list create retrieve delete
        """,
    ),
    (
        PREFIXES,
        KEYS,
        """
        POST /organization/external_keys admin.organization.external_keys.create
        DELETE /organization/external_keys/{external_key_id} admin.organization.external_keys.delete
        GET /organization/external_keys admin.organization.external_keys.list
        GET /organization/external_keys/{external_key_id} admin.organization.external_keys.retrieve
        POST /organization/external_keys/{external_key_id}/validate admin.organization.external_keys.validate
        POST /organization/external_storage admin.organization.external_storage.create
        DELETE /organization/external_storage/{external_storage_id} admin.organization.external_storage.delete
        GET /organization/external_storage admin.organization.external_storage.list
        GET /organization/external_storage/{external_storage_id} admin.organization.external_storage.retrieve
        POST /organization/external_storage/{external_storage_id}/validate admin.organization.external_storage.validate
        POST /organization/projects/{project_id}/api_keys/{api_key_id} admin.organization.projects.api_keys.update
        GET /organization/projects/{project_id}/service_tier_settings \
            admin.organization.projects.service_tier_settings.retrieve
        POST /organization/projects/{project_id}/service_tier_settings \
            admin.organization.projects.service_tier_settings.update
        GET /organization/usage/decisions admin.organization.usage.decisions
        POST /organization/workload_identity_providers admin.organization.workload_identity_providers.create
        DELETE /organization/workload_identity_providers/{provider_id} \
            admin.organization.workload_identity_providers.delete
        POST /organization/workload_identity_providers/{provider_id}/federation_rules \
            admin.organization.workload_identity_providers.federation_rules.create
        DELETE /organization/workload_identity_providers/{provider_id}/federation_rules/{federation_rule_id} \
            admin.organization.workload_identity_providers.federation_rules.delete
        GET /organization/workload_identity_providers/{provider_id}/federation_rules \
            admin.organization.workload_identity_providers.federation_rules.list
        GET /organization/workload_identity_providers/{provider_id}/federation_rules/{federation_rule_id} \
            admin.organization.workload_identity_providers.federation_rules.retrieve
        POST /organization/workload_identity_providers/{provider_id}/federation_rules/{federation_rule_id} \
            admin.organization.workload_identity_providers.federation_rules.update
        GET /organization/workload_identity_providers admin.organization.workload_identity_providers.list
        GET /organization/workload_identity_providers/{provider_id} \
            admin.organization.workload_identity_providers.retrieve
        POST /organization/workload_identity_providers/{provider_id} \
            admin.organization.workload_identity_providers.update
        """,
    ),
    (
        PREFIXES,
        "",
        """
        POST /audio/voices audio.voices.create
        POST /audio/voice_consents audio.voice_consents.create
        DELETE /audio/voice_consents/{voice_consent_id} audio.voice_consents.delete
        GET /audio/voice_consents audio.voice_consents.list
        GET /audio/voice_consents/{voice_consent_id} audio.voice_consents.retrieve
        POST /audio/voice_consents/{voice_consent_id} audio.voice_consents.update
        DELETE /audio/voices/{voice_id} audio.voices.delete
        POST /vaults beta.agents.vaults.create
        POST /vaults/{vault_id}/credentials beta.agents.vaults.credentials.create
        DELETE /vaults/{vault_id}/credentials/{credential_id} beta.agents.vaults.credentials.delete
        GET /vaults/{vault_id}/credentials beta.agents.vaults.credentials.list
        GET /vaults/{vault_id}/credentials/{credential_id} beta.agents.vaults.credentials.retrieve
        POST /vaults/{vault_id}/credentials/{credential_id} beta.agents.vaults.credentials.update
        DELETE /vaults/{vault_id} beta.agents.vaults.delete
        GET /vaults beta.agents.vaults.list
        GET /vaults/{vault_id} beta.agents.vaults.retrieve
        POST /vaults/{vault_id} beta.agents.vaults.update
        POST /decisions decisions.create
        POST /live/sessions live.create
        POST /live/sessions/{session_id}/accept live.sessions.accept
        GET /live/sessions/{session_id}/content live.sessions.download_recording
        POST /live/sessions/{session_id}/fork live.sessions.fork
        POST /live/sessions/{session_id}/hangup live.sessions.hangup
        POST /live/sessions/{session_id}/refer live.sessions.refer
        POST /live/sessions/{session_id}/reject live.sessions.reject
        POST /realtime/translations/client_secrets realtime.translations.client_secrets.create
        GET /safety/alerts/{alert_id} safety.alerts.retrieve
        GET /safety/cases/{case_id} safety.cases.retrieve
        POST /webhook_endpoints webhooks.create
        DELETE /webhook_endpoints/{webhook_endpoint_id} webhooks.delete
        GET /webhook_event_types webhooks.event_types.list
        GET /webhook_endpoints webhooks.list
        GET /webhook_endpoints/{webhook_endpoint_id} webhooks.retrieve
        POST /webhook_endpoints/{webhook_endpoint_id}/rotate_secret webhooks.rotate_secret
        POST /webhook_endpoints/{webhook_endpoint_id}/test webhooks.test
        POST /webhook_endpoints/{webhook_endpoint_id} webhooks.update
        """,
    ),
    (
        # below /v1 these are paths of Llama Stack's agents
        ("/v1/openai/v1",),
        AGENT,
        """
        POST /agents/automations beta.agents.automations.create
        DELETE /agents/automations/{automation_id} beta.agents.automations.delete
        POST /agents/automations/{automation_id}/invocations beta.agents.automations.invocations.create
        GET /agents/automations/{automation_id}/invocations beta.agents.automations.invocations.list
        GET /agents/automations/{automation_id}/invocations/{invocation_id} \
            beta.agents.automations.invocations.retrieve
        GET /agents/automations beta.agents.automations.list
        POST /agents/automations/{automation_id}/pause beta.agents.automations.pause
        POST /agents/automations/{automation_id}/resume beta.agents.automations.resume
        GET /agents/automations/{automation_id} beta.agents.automations.retrieve
        POST /agents/automations/{automation_id} beta.agents.automations.update
        POST /agents beta.agents.create
        DELETE /agents/{agent_id} beta.agents.delete
        POST /agents/environments beta.agents.environments.create
        GET /agents/environments/{environment_id}/files beta.agents.environments.files.list
        GET /agents/environments beta.agents.environments.list
        GET /agents/environments/{environment_id} beta.agents.environments.retrieve
        POST /agents/environments/templates beta.agents.environments.templates.create
        DELETE /agents/environments/templates/{template_id} beta.agents.environments.templates.delete
        GET /agents/environments/templates beta.agents.environments.templates.list
        GET /agents/environments/templates/{template_id} beta.agents.environments.templates.retrieve
        POST /agents/environments/templates/{template_id} beta.agents.environments.templates.update
        GET /agents beta.agents.list
        GET /agents/{agent_id} beta.agents.retrieve
        GET /agents/sessions/{session_id}/artifacts/{artifact_id}/content beta.agents.sessions.artifacts.content
        DELETE /agents/sessions/{session_id}/artifacts/{artifact_id} beta.agents.sessions.artifacts.delete
        GET /agents/sessions/{session_id}/artifacts beta.agents.sessions.artifacts.list
        GET /agents/sessions/{session_id}/artifacts/{artifact_id} beta.agents.sessions.artifacts.retrieve
        POST /agents/sessions beta.agents.sessions.create
        DELETE /agents/sessions/{session_id} beta.agents.sessions.delete
        POST /agents/sessions/{session_id}/events beta.agents.sessions.events.create
        GET /agents/sessions/{session_id}/events beta.agents.sessions.events.stream
        GET /agents/sessions/{session_id}/items beta.agents.sessions.items.list
        GET /agents/sessions beta.agents.sessions.list
        GET /agents/sessions/{session_id} beta.agents.sessions.retrieve,beta.agents.sessions.stream
        GET /agents/sessions/{session_id}/subagents/{subagent_id}/items beta.agents.sessions.subagents.items.list
        GET /agents/sessions/{session_id}/subagents beta.agents.sessions.subagents.list
        GET /agents/sessions/{session_id}/subagents/{subagent_id} beta.agents.sessions.subagents.retrieve
        GET /agents/sessions/{session_id}/subagents/{subagent_id}/turns/{turn_id}/items \
            beta.agents.sessions.subagents.turns.items.list
        GET /agents/sessions/{session_id}/subagents/{subagent_id}/turns beta.agents.sessions.subagents.turns.list
        GET /agents/sessions/{session_id}/subagents/{subagent_id}/turns/{turn_id} \
            beta.agents.sessions.subagents.turns.retrieve
        GET /agents/sessions/{session_id}/traces beta.agents.sessions.traces.list
        GET /agents/sessions/{session_id}/turns/{turn_id}/items beta.agents.sessions.turns.items.list
        GET /agents/sessions/{session_id}/turns beta.agents.sessions.turns.list
        GET /agents/sessions/{session_id}/turns/{turn_id} beta.agents.sessions.turns.retrieve
        POST /agents/sessions/{session_id} beta.agents.sessions.update
        POST /agents/{agent_id} beta.agents.update
        POST /agents/environments/{environment_id}/files beta.agents.environments.files.create
        """,
    ),
)


def unserved() -> tuple[Unserved, ...]:
    """Return all methods of OpenAI's client that are not served here, and are not Llama Stack's."""
    return tuple(rows_of(GROUPS))
