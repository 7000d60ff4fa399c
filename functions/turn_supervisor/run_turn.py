"""The worker of the state machine beside this file: reconciles one turn, given by its ids."""

from turnstone.edge.worker import TurnWorker

handler = TurnWorker(__name__)
