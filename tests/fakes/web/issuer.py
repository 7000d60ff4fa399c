"""An issuer of tokens on loopback: serves its public keys, and counts the requests for them."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER = "https://issuer.example"
AUDIENCE = "turnstone"
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_jwk(key: PrivateKey, **more: Any) -> dict[str, Any]:
    """Return the public half of a key as an issuer shows it."""
    kinds: dict[type, Any] = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
        ed25519.Ed25519PrivateKey: jwt.algorithms.OKPAlgorithm,
    }
    (algorithm,) = [algorithm for kind, algorithm in kinds.items() if isinstance(key, kind)]
    return {**json.loads(algorithm.to_jwk(key.public_key())), **more}


def claims(**changed: Any) -> dict[str, Any]:
    """Return the claims of a good token, with these changes; None leaves a claim out."""
    now = int(time.time())
    made = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "org": "acme", "iat": now, "exp": now + 300, **changed}
    return {name: value for name, value in made.items() if value is not None}


class Issuer:
    """Serves `answer` at `url` while the `with` block lasts."""

    def __init__(self) -> None:
        self.keys: dict[str, PrivateKey] = {}
        self.fetches = 0
        self.answer: tuple[int, bytes] | None = None
        self.takes_s = 0.0

    def add(self, key_id: str, key: PrivateKey | None = None) -> PrivateKey:
        self.keys[key_id] = key or rsa_key()
        return self.keys[key_id]

    def token(self, key_id: str, algorithm: str = "RS256", **changed: Any) -> str:
        """Return a token signed by that key."""
        return jwt.encode(claims(**changed), self.keys[key_id], algorithm, {"kid": key_id})  # type: ignore[arg-type]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/keys"

    def __enter__(self) -> Self:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.fetches += 1
                time.sleep(issuer.takes_s)
                status, body = issuer.answer or (200, issuer.shown())
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("location", issuer.url)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def shown(self) -> bytes:
        return json.dumps({"keys": [public_jwk(key, kid=name, use="sig") for name, key in self.keys.items()]}).encode()
