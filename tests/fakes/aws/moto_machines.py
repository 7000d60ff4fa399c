"""moto's state machines, parsed once. To import this changes them for the process.

moto parses a definition when it makes a machine and at the start of each execution, which took an eighth of their time.
Here definitions of the same text share a syntax tree; each execution has states of its own made of it, as before.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from antlr4 import CommonTokenStream, InputStream
from moto.stepfunctions.parser.asl.antlr.runtime.ASLLexer import ASLLexer
from moto.stepfunctions.parser.asl.antlr.runtime.ASLParser import ASLParser
from moto.stepfunctions.parser.asl.parse.asl_parser import (
    AmazonStateLanguageParser,
    ASLParserException,
    SyntaxErrorListener,
)
from moto.stepfunctions.parser.asl.parse.preprocessor import Preprocessor


@cache
def _syntax_tree(definition: str) -> Any:
    problems = SyntaxErrorListener()
    parser = ASLParser(CommonTokenStream(ASLLexer(InputStream(definition))))
    parser.removeErrorListeners()
    parser.addErrorListener(problems)
    tree = parser.state_machine()
    if problems.errors:
        raise ASLParserException(errors=problems.errors)
    return tree


def _parse(definition: str) -> tuple[Any, Any]:
    tree = _syntax_tree(definition)
    return Preprocessor().visit(tree), tree


AmazonStateLanguageParser.parse = staticmethod(_parse)  # type: ignore[method-assign]
