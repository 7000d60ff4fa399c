"""Files that tools made in a session, for callers that may see the session."""

from dataclasses import dataclass

from turnstone.domain.access.caller import Caller
from turnstone.domain.refs import SessionRef
from turnstone.ports.system import Clock
from turnstone.services.access.access import AccessRules, check_session
from turnstone.store.files.attachments import AttachedFile, AttachmentStore


@dataclass(frozen=True, slots=True)
class Attachments:
    store: AttachmentStore
    rules: AccessRules
    clock: Clock

    def read(self, caller: Caller, ref: SessionRef, attachment_id: str) -> AttachedFile:
        """Return the file. Raises NotFound for it or its session, ContentLost."""
        attached = self.store.find(ref, attachment_id)
        check_session(self.rules, caller, attached.session, attached.agent_owner, self.clock.now())
        return attached.file
