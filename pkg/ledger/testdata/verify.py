"""Checks a harness ledger bundle with nothing but Python: verify.py BUNDLE [FINGERPRINT]."""
import base64, hashlib, json, sys
P, Q = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)
def add(a, b):  # ed25519 in extended coordinates, RFC 8032 section 5.1.4
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    return (f - e) * (h - g) % P, (h + g) * (f + e) % P, (h - g) * (h + g) % P, (f - e) * (f + e) % P
def times(n, a):
    out = (0, 1, 1, 0)
    while n:
        out, a, n = add(out, a) if n & 1 else out, add(a, a), n >> 1
    return out
def point(raw):
    y, sign = int.from_bytes(raw, "little") % 2**255, raw[31] >> 7
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    x = x if (x * x - x2) % P == 0 else x * ROOT % P
    assert y < P and (x * x - x2) % P == 0 and (x or not sign), "no point of the curve"
    x = x if x & 1 == sign else P - x
    return x, y, 1, x * y % P
BASE = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))
sha = lambda data: hashlib.sha256(data).hexdigest()
# RFC 8785 for what a bundle holds: objects, lists, strings, whole numbers.
jcs = lambda v: json.dumps(v, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
without = lambda d, *keys: {k: v for k, v in d.items() if k not in keys}
def signed(key, message, signature):
    sig = base64.b64decode(signature, validate=True)
    s = int.from_bytes(sig[32:], "little")
    k = int.from_bytes(hashlib.sha512(sig[:32] + key + message).digest(), "little") % Q
    a, b = times(s, BASE), add(point(sig[:32]), times(k, point(key)))
    same = (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0
    return len(sig) == 64 and s < Q and base64.b64encode(sig).decode() == signature and same
def check(data, pin=None):
    b, keys, prev = json.loads(data), {}, None
    assert jcs(b) + b"\n" == data, "not in canonical form"
    for k in b["public_keys"]:
        key = base64.b64decode(k["public_key"])
        form = jcs(dict(without(k, "fingerprint", "signature", "previous_signature"), schema="harness/ledger-key/v1"))
        assert sha(key) == k["fingerprint"] and signed(key, form, k["signature"]), "a key's own signature"
        assert k["previous"] == prev and (not prev or signed(keys[prev], form, k["previous_signature"])), "a key's predecessor"
        assert prev or k["previous_signature"] is None, "the first key"
        prev, keys[k["fingerprint"]] = k["fingerprint"], key
    assert not pin or pin in keys, "not the pinned key"
    last = "0" * 64
    for n, e in enumerate(b["entries"], 1):
        form, body = jcs(without(e, "sha256", "signature")), e["body"]
        assert (e["n"], e["prev_sha256"], e["sha256"], body["session"]) == (n, last, sha(form), b["session"]), f"entry {n}"
        assert signed(keys[body["key"]], form, e["signature"]), f"signature of entry {n}"
        last = e["sha256"]
    v, end = b["verdict"], b["entries"][-1]
    assert b["schema"] == "harness/ledger-bundle/v1" and b["head_hash"] == last, "schema or head"
    assert b["entries"][0]["body"]["text_sha256"] == sha(b["contract"].encode()), "text of the contract"
    prompt = b["entries"][0]["body"].get("prompt_sha256")
    assert prompt is None or len(bytes.fromhex(prompt)) == 32, "digest of the prompt"
    assert (end["type"] == "verdict") == (v is not None) and (not v or end["body"]["verdict"] == v), "the recorded verdict"
    key = v and base64.b64decode(v["public_key"], validate=True)
    form = v and jcs({"schema": "harness/verdict/v1", "session": b["session"], "verdict": without(v, "signature", "public_key")})
    assert not v or (sha(key) in keys and signed(key, form, v["signature"])), "signature of the verdict"

for path in sys.argv[1].split(","):
    try:
        print("ok", check(open(path, "rb").read(), *sys.argv[2:3]) or "")
    except Exception as e:
        print("refused:", e or type(e).__name__)
