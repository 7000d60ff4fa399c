"""The races: those of the design, and related ones."""

from enum import StrEnum


class Race(StrEnum):
    """Events that may happen at the same time, or at the worst moment."""

    RESUME_TWICE = "resume twice"
    RESUME_AFTER_EXPIRY = "resume after expiry"
    WRONG_CALL_IDS = "wrong, missing or duplicate call ids"
    RESUME_OF_ENDED = "resume of a finished, superseded or unknown turn"
    TWO_TURNS = "two turns at once"
    NEW_TURN_AGAINST_RESUME = "a new turn against a resume"
    EXPIRE_AGAINST_RESUME = "expire against resume"
    CANCEL_AGAINST_CLOSE = "cancel against close"
    DELETE_DURING_TURN = "delete during a turn"
    CRASH_BEFORE_WRITE = "crash after inference before the write"
    CRASH_BEFORE_EVENT = "crash after the write before the event"
    CRASH_AFTER_RESUME = "crash after the resume write"
    PAUSE_WITHOUT_EXECUTION = "pause written but the execution did not start"
    RESUME_BEFORE_TOKEN = "resume before the machine stored its token"
    LATE_TOKEN = "late token of an older pause"
    LOST_ANSWER = "lost answer of a conditional write"
    CLIENT_RETRY = "client retry of a POST"
    LEASE_LOST = "lease lost while the model streams"
    DEAD_WRITER = "dead writer writing late"

    TWO_HEIRS = "two processes take one turn over"
    HAND_OVER = "hand-over against the run"
    READ_DURING_WRITE = "a reader between two writes"
    CLOCK_SKEW = "clocks that differ or go back"
    ONE_KEY_TWICE = "two requests with one key at once"
    DELETE_AGAINST_CREATE = "delete against create, or against another delete"
    TWO_RUNS_OF_A_JOB = "two runs of one clean-up"
    SWEEP = "sweep against what it meets"
    LOST_POWER = "power lost behind an answer"
    HALF_A_WRITE = "a write that fails half way"
    TWO_WRITERS = "two writers of one record"
    SLOT_AGAINST_LEAVING = "a free slot against a request that waits for it, or leaves"
    QUEUED = "a queued turn against a claim, a newer request or a full queue"
    OPENING_WITH_SESSION = "a turn that creates its session against a repetition, or the end of its agent"
    PATIENCE = "requests that wait for one session"
    NO_RACE = "no race, but a rule that only luck held"


OF_THE_DESIGN = tuple(Race)[: tuple(Race).index(Race.DEAD_WRITER) + 1]
