from __future__ import annotations

import base64
import struct
from hashlib import sha1
from pathlib import Path

import pytest

from headwater.local.trust import trust_options


def test_the_key_store_holds_every_certificate_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "bundle.pem"
    ders = [b"first certificate", b"second certificate"]
    pems = [base64.b64encode(der).decode() for der in ders]
    bundle.write_text(
        "".join(f"-----BEGIN CERTIFICATE-----\n{p}\n-----END CERTIFICATE-----\n" for p in pems)
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    store = tmp_path / "store"
    assert f"-Djavax.net.ssl.trustStore={store}" in trust_options(store)
    content = store.read_bytes()
    assert struct.unpack(">III", content[:12]) == (0xFEEDFEED, 2, 2)
    assert all(der in content for der in ders)
    sealed = "headwater".encode("utf-16-be") + b"Mighty Aphrodite" + content[:-20]
    assert content[-20:] == sha1(sealed).digest()
