"""The machine's certificate authorities, for a Java runtime that brings only its own.

A Java from the machine is set up by the machine's owner; the packaged one does not know an
authority that was added here, and behind an inspecting proxy every download would fail.
"""

from __future__ import annotations

import os
import re
import ssl
import struct
from hashlib import sha1
from pathlib import Path

_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PASSWORD = "headwater"


def trust_options(store: Path) -> list[str]:
    """Java options that make it trust what this machine trusts; writes `store`."""
    certificates = _machine_certificates()
    if not certificates:
        return []
    store.write_bytes(_key_store(certificates))
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def _machine_certificates() -> list[bytes]:
    places = [os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile, *_BUNDLES]
    for place in places:
        if place and Path(place).is_file():
            text = Path(place).read_text(encoding="utf-8", errors="replace")
            return [ssl.PEM_cert_to_DER_cert(pem) for pem in _PEM.findall(text)]
    return []


def _key_store(certificates: list[bytes]) -> bytes:
    """Java's JKS format: its `keytool` adds one certificate per run, 140 of them in a minute."""
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        body += struct.pack(">I", 2) + _text(f"ca{number}") + struct.pack(">Q", 0)
        body += _text("X.509") + struct.pack(">I", len(certificate)) + certificate
    seal = sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body)
    return body + seal.digest()


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode("ascii")
