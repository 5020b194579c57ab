"""The client of a Gas Station in one file: standard library only, Python 3.10 or later.

    from gas_station import GasStation

    gas, agent = GasStation.onboard("http://127.0.0.1:8402", "scout")
    print(agent["api_key"])  # shown once: store it, next time GasStation(url, api_key)
    print(gas.call("price_feed", {"query": "BTC"})["prices"])

Each write has an Idempotency-Key: a request without an answer is repeated under it and is charged once.
Errors are classes below GasStationError. Keys and payments go to the origin of the station only.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import re
import secrets
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from contextlib import contextmanager
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Iterator, NamedTuple

__all__ = [
    "BudgetExceeded", "Conflict", "FuseTripped", "GasStation", "GasStationError", "InvalidRequest",
    "NotAStation", "NotAllowed", "NotFound", "OutcomeUnknown", "PaymentHook", "PaymentNotMade",
    "PaymentRefused", "PaymentRequired", "PaymentWay", "RateLimited", "RedirectRefused",
    "SettlementUnknown", "StationRefusal", "StationUnavailable", "StationUnreachable",
    "StreamBroken", "Task", "ToolFailed", "Unauthenticated", "to_station_refusal",
]  # fmt: skip

Json = dict[str, Any]


# --- errors -----------------------------------------------------------------------------------


class GasStationError(Exception):
    """Everything that this client raises by itself."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class StationRefusal(GasStationError):
    """The station refused the request, or could not serve it: `problem` is its document (RFC 9457)."""

    def __init__(self, problem: Json, headers: Any = None) -> None:
        code = problem["code"]
        super().__init__(code, problem.get("detail") or problem.get("title") or code)
        self.problem = problem
        self.status: int = problem["status"]
        self.headers = headers if headers is not None else http.client.HTTPMessage()

    @property
    def call_id(self) -> str | None:
        return self.problem.get("call_id")

    @property
    def retry_after_seconds(self) -> float | None:
        return self.problem.get("retry_after")


class InvalidRequest(StationRefusal):
    """The request is wrong: `problem["errors"]` points at each field."""


class Unauthenticated(StationRefusal):
    """No key, or one that does not work."""


class NotAllowed(StationRefusal):
    """The key may not do this."""


class NotFound(StationRefusal):
    pass


class Conflict(StationRefusal):
    """The state of a thing does not allow this."""


class BudgetExceeded(StationRefusal):
    """The budget of the task, the schedule or the key would be exceeded. Nothing was charged."""


class FuseTripped(StationRefusal):
    """A spend limit of the Backpack would be exceeded. Nothing was charged."""


class RateLimited(StationRefusal):
    """Too many requests, or the free calls of today are used up."""


class ToolFailed(StationRefusal):
    """The tool or its provider failed. Nothing was charged."""


class OutcomeUnknown(StationRefusal):
    """Whether the call took effect is not known. It was not charged; do not repeat it blindly."""


class StationUnavailable(StationRefusal):
    """The station, or something that it needs, cannot answer now."""


class PaymentRequired(StationRefusal):
    """The call costs something that nobody has paid: `offers` are the ways to pay."""

    @property
    def offers(self) -> list[PaymentWay]:
        return _read_payment_ways(self.headers, self.problem)


class PaymentRefused(StationRefusal):
    """A payment was sent and not accepted. No second one is sent for the same call."""


class SettlementUnknown(StationRefusal):
    """The outcome of a payment is not known yet: ask for `settlement_id`, and do not pay again."""

    @property
    def settlement_id(self) -> str | None:
        return self.problem.get("settlement_id")


class PaymentNotMade(GasStationError):
    """The hook signed nothing: a cap forbids it, or the offer differs from the quote."""


class StationUnreachable(GasStationError):
    """No answer came: the network, a proxy or the station is down. It is safe to repeat."""


class RedirectRefused(GasStationError):
    """The station answered with a redirect, which would carry the key away."""


class NotAStation(GasStationError):
    """What came is no answer of a station."""


class StreamBroken(GasStationError):
    """A stream ended and could not be resumed."""


# Codes whose class their status does not tell.
_CLASS_BY_CODE: dict[str, type[StationRefusal]] = {
    "task_budget_exceeded": BudgetExceeded,
    "schedule_budget_exceeded": BudgetExceeded,
    "key_cap_exceeded": BudgetExceeded,
    "FUSE_TRIPPED": FuseTripped,
    "payment_invalid": PaymentRefused,
    "payment_malformed": PaymentRefused,
    "payment_already_used": PaymentRefused,
    "payment_credited": PaymentRefused,
    "permit2_allowance_required": PaymentRefused,
    "settlement_unknown": SettlementUnknown,
    "payment_in_progress": SettlementUnknown,
    "outcome_unknown": OutcomeUnknown,
    "cancelled": ToolFailed,
}
_CLASS_BY_STATUS: dict[int, type[StationRefusal]] = {
    401: Unauthenticated,
    402: PaymentRequired,
    403: NotAllowed,
    404: NotFound,
    405: NotFound,
    409: Conflict,
    410: Conflict,
    424: Conflict,
    429: RateLimited,
    502: ToolFailed,
    504: ToolFailed,
}


def to_station_refusal(problem: Json, headers: Any = None) -> StationRefusal:
    """Returns the error of a problem; a code of a newer station gets the class of its status."""
    status = problem["status"]
    fallback = StationUnavailable if status >= 500 else InvalidRequest
    kind = _CLASS_BY_CODE.get(problem["code"]) or _CLASS_BY_STATUS.get(status, fallback)
    return kind(problem, headers)


# --- payments ---------------------------------------------------------------------------------


class PaymentWay(NamedTuple):
    """One way to pay for a call, as a 402 states it."""

    protocol: str
    network: str
    asset: str
    pay_to: str
    amount: str
    # What the payment returns: the entry and the resource of x402, or the challenge of MPP.
    source: Any = None


def _decode_object(text: str) -> Json | None:
    try:
        plain = text.replace("-", "+").replace("_", "/")
        value = json.loads(base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _is_entry(one: Any) -> bool:
    texts = ("network", "amount", "asset", "payTo")
    return (
        isinstance(one, dict)
        and one.get("scheme") == "exact"
        and all(isinstance(one.get(name), str) for name in texts)
        and re.fullmatch(r"[0-9]{1,78}", one["amount"]) is not None
        and isinstance(one.get("maxTimeoutSeconds"), (int, float))
        and isinstance(one.get("extra", {}), dict)
    )


_CHALLENGE_PART = re.compile(
    r'[\s,]*(?:([\w-]+)\s*=\s*"((?:[^"\\]|\\.)*)"|([\w-]+)\s*=\s*[^\s",]+|([\w-]+)(?=\s|,|$))', re.A
)
_SIGNED = ("id", "realm", "method", "intent", "request", "expires", "digest", "opaque")


def _read_challenges(header: str) -> list[dict[str, str]]:
    """Returns the challenges of the scheme `Payment`, apart from each other.

    One with a doubled or an unquoted parameter is left out: two readers may understand it differently.
    """
    found: list[tuple[str, dict[str, str], list[str]]] = []
    text, at = header.strip(), 0
    while at < len(text):
        part = _CHALLENGE_PART.match(text, at)
        if part is None:
            return []  # The rest cannot be read, so nothing of it is trusted.
        at, (name, quoted, bare, scheme) = part.end(), part.groups()
        if scheme is not None:
            found.append((scheme.lower(), {}, []))
        elif found and name is not None and name.lower() not in found[-1][1]:
            found[-1][1][name.lower()] = re.sub(r"\\(.)", r"\1", quoted)
        elif found:
            found[-1][2].append(name or bare)
    return [fields for scheme, fields, faults in found if scheme == "payment" and not faults]


def _write_challenge(fields: dict[str, str]) -> str:
    """Writes a challenge again: a signer reads what was compared with the quote, and nothing else."""
    parts = [(name, fields[name]) for name in _SIGNED if name in fields]
    return "Payment " + ", ".join(
        name + '="' + re.sub(r'(["\\])', r"\\\1", value) + '"' for name, value in parts
    )


def _x402_way(source: Json) -> PaymentWay:
    one = source["accepted"]
    return PaymentWay("x402", one["network"], one["asset"], one["payTo"], one["amount"], source)


# The names that version 1 of x402 gives to networks.
_V1_NETWORKS = {
    "base": "eip155:8453",
    "base-sepolia": "eip155:84532",
    "solana": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
}


def _read_v1(accepts: Any) -> list[PaymentWay]:
    """Returns the entries of version 1, in the form of version 2."""
    ways = []
    for one in accepts if isinstance(accepts, list) else []:
        name = str(one.get("network")) if isinstance(one, dict) else ""
        network = _V1_NETWORKS.get(name)
        entry = {**one, "network": network, "amount": one.get("maxAmountRequired")} if network else None
        if _is_entry(entry):
            ways.append(_x402_way({"accepted": entry, "v1_network": name}))
    return ways


def _read_payment_ways(headers: Any, problem: Json) -> list[PaymentWay]:
    """Returns every way to pay that a 402 offers; malformed ones are left out."""
    if problem["status"] != 402:
        return []
    ways = []
    required = _decode_object(headers.get("payment-required") or "") or {}
    entries = required.get("accepts")
    for one in filter(_is_entry, entries if isinstance(entries, list) else []):
        ways.append(_x402_way({"accepted": one, "resource": required.get("resource")}))
    if not ways:
        ways = _read_v1(problem.get("accepts"))
    header = ", ".join(headers.get_all("www-authenticate") or [])
    for fields in _read_challenges(header):
        encoded = fields.get("request", "")
        asked = (_decode_object(encoded) if re.fullmatch(r"[\w-]+=*", encoded, re.A) else None) or {}
        details = asked.get("methodDetails")
        details = details if isinstance(details, dict) else {}
        chain_id = details.get("chainId")
        texts = [asked.get(name) for name in ("currency", "recipient", "amount")]
        # A request whose money goes to more than one payee is none that a quote can name.
        if fields.get("intent") != "charge" or type(chain_id) is not int or "splits" in details:
            continue
        if all(isinstance(x, str) for x in texts):
            source = _write_challenge(fields)
            ways.append(PaymentWay("mpp", f"eip155:{chain_id}", *texts, source=source))
    return ways


USDC: dict[str, Json] = {
    "eip155:8453": {
        "asset": "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
        "decimals": 6,
        "domain": {"name": "USD Coin", "version": "2"},
    },
    "eip155:84532": {
        "asset": "0x036cbd53842c5426634e7929541ec2318f3dcf7e",
        "decimals": 6,
        "domain": {"name": "USDC", "version": "2"},
    },
    "eip155:56": {
        "asset": "0x8ac76a51cc950d9822d68b83fe1ad97b32cd580d",
        "decimals": 18,
        "transfer_method": "permit2",
    },
    "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp": {
        "asset": "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
        "decimals": 6,
    },
    "eip155:4217": {"asset": "0x20c000000000000000000000b9537d11c60e8b50", "decimals": 6},
}
# Payments that are sent again when their call is repeated under the same key.
_MAX_KEPT_PAYMENTS = 1_000
_MAX_VALIDITY_S = 600
_MAX_CLOCK_DIFFERENCE_S = 600
_DAY_S = 86_400
_TRANSFER_TYPES = {
    "TransferWithAuthorization": [
        {"name": "from", "type": "address"},
        {"name": "to", "type": "address"},
        {"name": "value", "type": "uint256"},
        {"name": "validAfter", "type": "uint256"},
        {"name": "validBefore", "type": "uint256"},
        {"name": "nonce", "type": "bytes32"},
    ]
}
# One address on every chain, and the contract of x402 that pays the signed address only.
_PERMIT2 = "0x000000000022d473030f116ddee9f6b43ac78ba3"
_X402_PERMIT2_PROXY = "0x402085c248eea27d92e8b30b2c58ed07f9e20001"
_PERMIT_TYPES = {
    "PermitWitnessTransferFrom": [
        {"name": "permitted", "type": "TokenPermissions"},
        {"name": "spender", "type": "address"},
        {"name": "nonce", "type": "uint256"},
        {"name": "deadline", "type": "uint256"},
        {"name": "witness", "type": "Witness"},
    ],
    "TokenPermissions": [
        {"name": "token", "type": "address"},
        {"name": "amount", "type": "uint256"},
    ],
    "Witness": [
        {"name": "to", "type": "address"},
        {"name": "validAfter", "type": "uint256"},
    ],
}


def _transfer_method(entry: Json) -> str:
    """How an entry of x402 is paid: `eip3009`, `permit2` or `solana`."""
    if entry["network"].startswith("solana:"):
        return "solana"
    return "permit2" if (entry.get("extra") or {}).get("assetTransferMethod") == "permit2" else "eip3009"


def _micros(usdc: float) -> int:
    return round(usdc * 1_000_000)


class PaymentHook:
    """Pays a 402 within two required caps, and only what the station has quoted.

    `address` and `sign_typed_data(data)` sign x402 on Base, and on BSC once Permit2 is approved: `data` is the
    object of eth_signTypedData_v4, and the result is hex. `solana_transaction(transfer)` makes the signed
    transaction of a transfer on Solana, as base64. `mpp_credential(challenge)` returns the `Authorization` for a value of `WWW-Authenticate`.
    `payee` pins who is paid, `assets` what is money by CAIP-2 network. `load()` and `save(list)` keep
    what was signed, as [seconds since the epoch, micro-USDC], beyond this process.
    """

    def __init__(
        self,
        *,
        max_per_call_usdc: float,
        max_per_day_usdc: float,
        address: str | None = None,
        sign_typed_data: Callable[[Json], str] | None = None,
        solana_transaction: Callable[[Json], str] | None = None,
        mpp_credential: Callable[[str], str] | None = None,
        payee: str | None = None,
        assets: dict[str, Json] | None = None,
        load: Callable[[], list[list[float]]] | None = None,
        save: Callable[[list[list[float]]], None] | None = None,
    ) -> None:
        for cap in (max_per_call_usdc, max_per_day_usdc):
            if not 0 < cap < 1e9:
                raise GasStationError("invalid_cap", "both caps are positive numbers of USDC")
        for network, money in (assets or {}).items():
            if type(money.get("decimals")) is not int or money["decimals"] < 6:
                raise GasStationError("invalid_asset", f"the asset of {network} has too few decimals")
        self._per_call, self._per_day = _micros(max_per_call_usdc), _micros(max_per_day_usdc)
        self._address, self._sign, self._mpp = address, sign_typed_data, mpp_credential
        self._solana = solana_transaction
        self._payee, self._assets = payee, USDC if assets is None else assets
        self._load, self._save = load, save
        self._spent: list[tuple[float, int]] | None = None
        self._kept: dict[tuple[str, str], tuple[str, dict[str, str]]] = {}
        # By call: a lock, and how many threads hold it or wait for it.
        self._turns: dict[tuple[str, str], list[Any]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, name: tuple[str, str]) -> Iterator[None]:
        """Lets one thread at a time pay a call: the others find its payment."""
        with self._lock:
            turn = self._turns.setdefault(name, [threading.Lock(), 0])
            turn[1] += 1
        try:
            with turn[0]:
                yield
        finally:
            with self._lock:
                turn[1] -= 1
                if turn[1] == 0:
                    del self._turns[name]

    def keep(self, name: tuple[str, str], call: str, payment: dict[str, str]) -> None:
        """Keeps the payment of a call: one that is repeated under its key must not be paid again."""
        with self._lock:
            self._kept.pop(name, None)
            self._kept[name] = (call, payment)
            while len(self._kept) > _MAX_KEPT_PAYMENTS:
                del self._kept[next(iter(self._kept))]

    def earlier(self, name: tuple[str, str], call: str) -> dict[str, str] | None:
        """Returns the headers that have paid this call before; None without any."""
        kept = self._kept.get(name)
        return kept[1] if kept is not None and kept[0] == call else None

    def pay(self, required: PaymentRequired, quote: Callable[[], Json]) -> dict[str, str]:
        """Returns the headers that pay a 402. A signed payment counts in the day for good."""
        ways = [way for way in required.offers if self._can_sign(way)]
        if not ways:
            offered = [f"{way.protocol} on {way.network}" for way in required.offers]
            listed = ", ".join(offered) or "no payment"
            message = f"the station offers {listed}, which this hook cannot sign"
            raise PaymentNotMade("no_signer", message)
        quoted = quote()
        if not _is_quote(quoted):
            raise PaymentNotMade("quote_malformed", "nothing was paid: what came is no quote")
        faults = [self._fault_of(way, quoted) for way in ways]
        if None not in faults:
            raise PaymentNotMade("offer_differs", f"nothing was paid: {'; '.join(map(str, faults))}")
        now = _station_seconds(required)
        self._reserve(_micros(quoted["price_usdc"]))
        return self._headers(ways[faults.index(None)], now)

    def _can_sign(self, way: PaymentWay) -> bool:
        if way.protocol == "mpp":
            return self._mpp is not None
        if _transfer_method(way.source["accepted"]) == "solana":
            return self._solana is not None
        return self._sign is not None and self._address is not None

    def _fault_of(self, way: PaymentWay, quote: Json) -> str | None:
        """Returns why a way must not be paid; None if it may."""
        at = f"{way.protocol} on {way.network}"
        money = self._assets.get(way.network)
        if money is None:
            return f"{at}: no asset is known there"
        if not _same(way, money["asset"], way.asset):
            return f"{at}: {way.asset} is not the known asset"
        units = _micros(quote["price_usdc"]) * 10 ** (money["decimals"] - 6)
        if units <= 0 or way.amount != str(units):
            return f"{at}: {way.amount} is not the quoted price of {quote['price_usdc']} USDC"
        unfit = _fault_of_transfer(way.source["accepted"], money) if way.protocol == "x402" else None
        if unfit is not None:
            return f"{at}: {unfit}"
        if self._payee is not None and not _same(way, self._payee, way.pay_to):
            return f"{at}: {way.pay_to} is not the payee"
        same = [o for o in quote["offers"] if (o["protocol"], o["network"]) == way[:2]]
        if not same:
            return f"{at}: not in the quote"
        if not _same(way, same[0]["asset"], way.asset):
            return f"{at}: the quote names another asset"
        if not _same(way, same[0]["pay_to"], way.pay_to):
            return f"{at}: the quote names another payee"
        return None if same[0]["amount"] == way.amount else f"{at}: the quote names another amount"

    def _reserve(self, micros: int) -> None:
        """Counts an amount as spent before it is signed, by a clock that nobody can set."""
        if micros > self._per_call:
            message = f"the call costs {micros / 1e6} USDC, and the hook pays at most {self._per_call / 1e6}"
            raise PaymentNotMade("cap_per_call", message)
        with self._lock:
            now = time.monotonic()
            if self._spent is None:
                self._spent = self._stored_spends(now)
            recent = [one for one in self._spent if one[0] > now - _DAY_S]
            total = sum(one[1] for one in recent)
            if total + micros > self._per_day:
                message = (
                    f"{total / 1e6} of {self._per_day / 1e6} USDC are signed in 24 hours, "
                    f"and this call costs {micros / 1e6}"
                )
                raise PaymentNotMade("cap_per_day", message)
            self._spent = [*recent, (now, micros)]
            if self._save:
                self._save([[time.time() - (now - at), one] for at, one in self._spent])

    def _stored_spends(self, now: float) -> list[tuple[float, int]]:
        """What was signed before; a time in the future counts as now."""
        stored = self._load() if self._load else []
        try:
            spends = [(now - max(0, time.time() - at), int(micros)) for at, micros in stored]
        except (TypeError, ValueError, OverflowError):
            spends = [(now, -1)]
        # Spends that cannot be counted would be spent again.
        if any(micros < 0 for _, micros in spends):
            raise GasStationError("invalid_store", "the store returned what no hook has saved in it")
        return spends

    def _headers(self, way: PaymentWay, now: int) -> dict[str, str]:
        try:
            if way.protocol == "mpp" and self._mpp is not None:
                return {"authorization": self._mpp(way.source)}
            method = _transfer_method(way.source["accepted"])
            sign = {"solana": self._solana_transfer, "permit2": self._permit, "eip3009": self._transfer}
            payload = sign[method](way, now)
        except Exception as error:
            message = f"the signer for {way.network} failed: {error}"
            raise PaymentNotMade("signer_failed", message) from error
        v1 = way.source.get("v1_network")
        if v1 is None:
            return {"payment-signature": _encode({"x402Version": 2, **way.source, "payload": payload})}
        scheme = way.source["accepted"]["scheme"]
        paid = {"x402Version": 1, "scheme": scheme, "network": v1, "payload": payload}
        return {"x-payment": _encode(paid)}

    def _solana_transfer(self, way: PaymentWay, _now: int) -> Json:
        """Has a transfer on Solana signed."""
        assert self._solana is not None
        transfer = {
            "network": way.network,
            "asset": way.asset,
            "pay_to": way.pay_to,
            "amount": way.amount,
            "fee_payer": way.source["accepted"]["extra"]["feePayer"],
        }
        return {"transaction": self._solana(transfer)}

    def _permit(self, way: PaymentWay, now: int) -> Json:
        """Signs a permit for one transfer to the payee (Permit2)."""
        permit = {
            "permitted": {"token": way.asset, "amount": way.amount},
            "spender": _X402_PERMIT2_PROXY,
            "nonce": str(secrets.randbits(256)),
            "deadline": _end_of(way, now),
            "witness": {"to": way.pay_to, "validAfter": "0"},
        }
        assert self._sign is not None
        signature = self._sign(
            {
                "domain": {
                    "name": "Permit2",
                    "chainId": int(way.network.split(":")[1]),
                    "verifyingContract": _PERMIT2,
                },
                "types": _PERMIT_TYPES,
                "primaryType": "PermitWitnessTransferFrom",
                "message": permit,
            }
        )
        return {"signature": signature, "permit2Authorization": {"from": self._address, **permit}}

    def _transfer(self, way: PaymentWay, now: int) -> Json:
        """Signs TransferWithAuthorization (EIP-3009)."""
        entry = way.source["accepted"]
        authorization = {
            "from": self._address,
            "to": way.pay_to,
            "value": way.amount,
            "validAfter": "0",
            "validBefore": _end_of(way, now),
            "nonce": "0x" + secrets.token_hex(32),
        }
        domain = {
            "name": entry["extra"]["name"],
            "version": entry["extra"]["version"],
            "chainId": int(way.network.split(":")[1]),
            "verifyingContract": way.asset,
        }
        assert self._sign is not None
        signature = self._sign(
            {
                "domain": domain,
                "types": _TRANSFER_TYPES,
                "primaryType": "TransferWithAuthorization",
                "message": authorization,
            }
        )
        return {"signature": signature, "authorization": authorization}


def _is_quote(quote: Any) -> bool:
    """Whether a price can be compared: anything may come from a server that is no station."""
    if not isinstance(quote, dict) or type(quote.get("price_usdc")) not in (int, float):
        return False
    offers, fields = quote.get("offers"), ("protocol", "network", "asset", "pay_to", "amount")
    return (
        abs(quote["price_usdc"]) < 1e9
        and isinstance(offers, list)
        and all(isinstance(o, dict) and all(isinstance(o.get(x), str) for x in fields) for o in offers)
    )


def _same(way: PaymentWay, one: str, other: str) -> bool:
    """Whether two addresses are one: those of Ethereum ignore case, those of Solana do not."""
    return one.lower() == other.lower() if way.network.startswith("eip155:") else one == other


def _end_of(way: PaymentWay, now: int) -> str:
    """Returns the end of a payment's validity, in seconds."""
    return str(now + min(int(way.source["accepted"]["maxTimeoutSeconds"]), _MAX_VALIDITY_S))


def _finite_json(body: Json) -> str:
    """JSON text of a body; refuses NaN and infinity, which JSON cannot hold."""
    try:
        return json.dumps(body, allow_nan=False)
    except ValueError as error:
        raise GasStationError("invalid_input", f"a number that JSON cannot hold: {error}") from None


def _encode(value: Json) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def _fault_of_transfer(entry: Json, money: Json) -> str | None:
    """Returns why an entry of x402 cannot be paid with an asset; None if it can."""
    extra, method = entry.get("extra") or {}, _transfer_method(entry)
    if method == "solana":
        return None if isinstance(extra.get("feePayer"), str) else "no account pays the fee"
    if method != money.get("transfer_method", "eip3009"):
        return f"the asset is not paid by {method} here"
    domain = money.get("domain")
    if method == "permit2" or (domain and all(extra.get(name) == text for name, text in domain.items())):
        return None
    return "the domain of the asset is another"


def _station_seconds(required: PaymentRequired) -> int:
    """The time of the station, which decides whether a payment is valid."""
    here = int(time.time())
    try:
        there = int(parsedate_to_datetime(required.headers.get("date")).timestamp())
    except (TypeError, ValueError):
        return here
    if abs(there - here) <= _MAX_CLOCK_DIFFERENCE_S:
        return there
    ours, theirs = (datetime.fromtimestamp(at, timezone.utc).isoformat() for at in (here, there))
    message = f"nothing was signed: the clock here says {ours}, the station {theirs}. Set the clock first."
    raise PaymentNotMade("clock_differs", message)


# --- the client -------------------------------------------------------------------------------

_MAX_RETRY_AFTER_S = 30
# Refusals that the same request may pass later; none of them is stored under its key.
_TRANSIENT = {
    "rate_limited",
    "unavailable",
    "overloaded",
    "snapshot_too_new",
    "idempotency_in_flight",
    "payment_in_progress",
    "settlement_unknown",
}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        raise _redirect_refused(req.full_url, newurl)


def _redirect_refused(at: str, to: str | None) -> RedirectRefused:
    origin = "{0.scheme}://{0.netloc}".format(urllib.parse.urlsplit(at))
    message = f"{origin} redirects to {to}. The key was not sent there: use the final address as url."
    return RedirectRefused("redirect_refused", message)


class Task:
    """A budget that calls share: a context manager that ends the task, or cancels it on an error."""

    def __init__(self, gas: GasStation, state: Json) -> None:
        self.id: str = state["task_id"]
        self.state = state
        self.gas = gas.but(task_id=self.id)

    def call(self, tool: str, input: Json | None = None, **options: Any) -> Json:
        return self.gas.call(tool, input, **options)

    def raise_to(self, budget_usdc: float) -> Json:
        body = {"budget_usdc": budget_usdc}
        return self.gas.request("PATCH", f"/api/task/{self.id}/budget", body)

    def end(self) -> Json:
        self.state = self.gas.request("POST", "/api/task/end", {"task_id": self.id})
        return self.state

    def cancel(self) -> Json:
        self.state = self.gas.request("POST", "/api/task/cancel", {"task_id": self.id})
        return self.state

    def __enter__(self) -> Task:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.end()
            return
        try:
            self.cancel()
        except GasStationError:
            pass  # Why the work failed matters more.


class _Tools:
    """`gas.tools.price_feed(query="BTC")`."""

    def __init__(self, gas: GasStation) -> None:
        self._gas = gas

    def __getattr__(self, slug: str) -> Callable[..., Json]:
        if slug.startswith("__"):
            raise AttributeError(slug)
        return lambda **input: self._gas.call(slug, input)


class GasStation:
    """A client of one station.

    `proxies` replaces those of the environment, as {"https": "http://proxy:3128"}; {} uses none.
    `ca_file` is a PEM file of a certification authority that the system does not know.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        payment: PaymentHook | None = None,
        task_id: str | None = None,
        backpack_id: str | None = None,
        timeout: float = 120,
        max_attempts: int = 5,
        retry_delay: float = 0.25,
        proxies: dict[str, str] | None = None,
        ca_file: str | None = None,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise GasStationError("invalid_url", f"{url} is not the http(s) address of a station")
        if api_key is not None:
            api_key = _checked_key(api_key)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._options: Json = dict(
            api_key=api_key, payment=payment, task_id=task_id, backpack_id=backpack_id,
            timeout=timeout, max_attempts=max_attempts, retry_delay=retry_delay,
            proxies=proxies, ca_file=ca_file,
        )  # fmt: skip
        self._proxies = urllib.request.getproxies() if proxies is None else proxies
        handlers: list[Any] = [urllib.request.ProxyHandler(proxies), _NoRedirect()]
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=ca_file)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)
        self.tools = _Tools(self)

    @classmethod
    def onboard(
        cls, url: str, name: str, *, profile: Json | None = None, **options: Any
    ) -> tuple[GasStation, Json]:
        """Registers an agent; returns its client and the answer, which alone has the key."""
        body = {"source": "sdk", **(profile or {}), "name": name}
        agent = cls(url, **options).request("POST", "/api/onboard", body)
        return cls(url, agent["api_key"], **options), agent

    def but(self, **options: Any) -> GasStation:
        """The same client with other options. The caps of its payment hook stay shared."""
        return GasStation(self.origin, **{**self._options, **options})

    def call(
        self, tool: str, input: Json | None = None, *, idempotency_key: str | None = None
    ) -> Json:
        """Calls a tool. A failed attempt is repeated under one key, so the call is charged once."""
        fields, key = dict(input or {}), idempotency_key or str(uuid.uuid4())

        def send(payment: dict[str, str]) -> Json:
            return self._send("POST", "/api/refuel", {**fields, "tool": tool}, key, payment)

        return self._paying(tool, fields, send, "/api/refuel", key)[0]

    def stream(
        self, tool: str, input: Json | None = None, *, idempotency_key: str | None = None
    ) -> Iterator[tuple[str, Json]]:
        """Yields (event, data): `start`, `progress`, `partial` and `text`, and `result` last.

        A broken stream is opened again under the same key and with the same payment.
        """
        fields, key = dict(input or {}), idempotency_key or str(uuid.uuid4())
        path, body = "/api/refuel/stream", {**fields, "tool": tool}
        paid: dict[str, str] = {}
        failures, started = 0, False

        def open_stream(payment: dict[str, str]) -> Any:
            return self._retrying("POST", path, body, key, payment, lambda response: response)

        while True:
            try:
                response, paid = self._paying(tool, fields, open_stream, path, key, paid)
                with response:
                    for _, event, data in _read_events(response):
                        if event == "error":
                            raise _refusal_in_stream(data)
                        if event == "start" and started:
                            continue
                        started = started or event == "start"
                        yield event, data
                        if event == "result":
                            return
            except Conflict as error:
                if error.code != "idempotency_in_flight":
                    raise
            except (OSError, http.client.HTTPException):
                pass
            failures = self._pause_after(failures)

    def signals(self, channels: list[str], since: str | None = None) -> Iterator[tuple[str, Json]]:
        """Yields ("ready" | "signal" | "gap", data), each signal once and in order; resumes."""
        query = urllib.parse.urlencode({"channels": ",".join(channels)})
        cursor, failures, opened = since, 0, False
        while True:
            headers = {} if cursor is None else {"last-event-id": cursor}
            path = f"/api/signal/stream?{query}"
            try:
                response = self._retrying("GET", path, None, None, headers, lambda one: one)
                with response:
                    for id_, event, data in _read_events(response):
                        if re.fullmatch(r"[0-9]{1,19}", id_ or "0") is None:
                            raise NotAStation("not_a_station", "the id of a signal is no number")
                        failures = 0
                        if event == "error":
                            raise _refusal_in_stream(data)
                        known = id_ is not None and cursor is not None and int(id_) <= int(cursor)
                        seen = opened if event == "ready" else known
                        opened, cursor = True, id_ or cursor
                        if event and not seen:
                            yield event, data
            except (OSError, http.client.HTTPException):
                pass
            failures = self._pause_after(failures)

    def quote(self, tool: str, input: Json | None = None) -> Json:
        """What a call would cost, and whether it would be refused."""
        return self.request("POST", "/api/quote", {**(input or {}), "tool": tool})

    def catalogue(self) -> list[Json]:
        """All pages; schemas of tools of other agents are at `/api/tools/{slug}`."""
        tools: list[Json] = []
        path = "/api/tools"
        while True:
            page = self.request("GET", path)
            tools += page["tools"]
            if not page.get("next_cursor"):
                return tools
            path = f"/api/tools?cursor={page['next_cursor']}"

    def balance(self) -> Json:
        return self.request("GET", "/api/credits/balance")

    def task(self, name: str, budget_usdc: float) -> Task:
        """Starts a task: `with gas.task("research", 0.1) as task: task.call(...)`."""
        body = {"name": name, "budget_usdc": budget_usdc}
        return Task(self, self.request("POST", "/api/task/start", body))

    def create_backpack(self, **terms: Any) -> Json:
        """Creates a Backpack: `tools`, `fuse={"per_day_usdc": 1}`, `expiry_days`.

        Without a limit in `fuse` it has none. `PATCH /api/backpack/{id}` removes one only by
        `{"remove": ["per_day_usdc"]}`.
        """
        return self.request("POST", "/api/backpack/create", terms)

    def in_backpack(self, backpack_id: str) -> GasStation:
        return self.but(backpack_id=backpack_id)

    def request(
        self, method: str, path: str, body: Json | None = None, *, idempotency_key: str | None = None
    ) -> Any:
        """Any route of the API."""
        return self._send(method, path, body, idempotency_key or str(uuid.uuid4()), {})

    def _paying(
        self,
        tool: str,
        fields: Json,
        send: Callable[[dict[str, str]], Any],
        path: str,
        key: str,
        paid: dict[str, str] | None = None,
    ) -> tuple[Any, dict[str, str]]:
        """Sends a call, and pays it once where the station asks for it and the hook may."""
        hook: PaymentHook | None = self._options["payment"]
        limits = [self._options[name] for name in ("task_id", "backpack_id")]
        name, call = (self.origin, key), json.dumps([path, tool, fields, limits], sort_keys=True)
        if not paid and hook is not None:
            paid = hook.earlier(name, call)
        try:
            return send(paid or {}), paid or {}
        except PaymentRequired as error:
            if paid:
                raise PaymentRefused(error.problem, error.headers) from None
            if hook is None or not error.offers:
                raise
            with hook.turn(name):
                made = hook.earlier(name, call)
                payment = made or hook.pay(error, lambda: self.quote(tool, fields))
                hook.keep(name, call, payment)
        try:
            return send(payment), payment
        except PaymentRequired as error:
            raise PaymentRefused(error.problem, error.headers) from None

    def _pause_after(self, failures: int) -> int:
        if failures + 1 > self._options["max_attempts"]:
            raise StreamBroken("stream_broken", f"the stream broke {failures + 1} times")
        time.sleep(self._delay(failures))
        return failures + 1

    def _delay(self, attempt: int) -> float:
        return self._options["retry_delay"] * 2 ** min(attempt, 7) * random.uniform(0.5, 1)

    def _send(self, method: str, path: str, body: Json | None, key: str, more: dict[str, str]) -> Any:
        return self._retrying(method, path, body, key, more, _read_json)

    def _retrying(
        self,
        method: str,
        path: str,
        body: Json | None,
        key: str | None,
        more: dict[str, str],
        read: Callable[[Any], Any],
    ) -> Any:
        for attempt in range(self._options["max_attempts"]):
            try:
                return read(self._open(method, path, body, key, more))
            except (StationUnreachable, StationRefusal) as error:
                wait = _retry_after(error)
                if wait is None or attempt + 1 == self._options["max_attempts"]:
                    raise
            except (OSError, http.client.HTTPException) as error:
                # The answer was cut off: the same key gets it again.
                if attempt + 1 == self._options["max_attempts"]:
                    raise self._unreachable(error) from error
                wait = 0
            time.sleep(max(wait, self._delay(attempt)))
        raise AssertionError("max_attempts is at least 1")

    def _open(
        self, method: str, path: str, body: Json | None, key: str | None, more: dict[str, str]
    ) -> Any:
        address = urllib.parse.urljoin(self.origin + "/", path)
        if not address.startswith(self.origin + "/"):
            raise GasStationError("foreign_address", f"{path} is not an address of {self.origin}")
        headers = {"accept": "application/json, text/event-stream", "user-agent": "gas-station-py"}
        headers.update(more)
        names = {"api_key": "x-api-key", "task_id": "x-task-id", "backpack_id": "x-backpack-id"}
        for option, name in names.items():
            if self._options[option] is not None:
                headers[name] = self._options[option]
        if method != "GET" and key is not None:
            headers["idempotency-key"] = key
        data = None if body is None else _finite_json(body).encode()
        if data is not None:
            headers["content-type"] = "application/json"
        request = urllib.request.Request(address, data, headers, method=method)
        try:
            return self._opener.open(request, timeout=self._options["timeout"])
        except urllib.error.HTTPError as answer:
            with answer:
                raise self._refusal_of(address, answer) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _refusal_of(self, address: str, answer: urllib.error.HTTPError) -> Exception:
        if 300 <= answer.code < 400:
            return _redirect_refused(address, answer.headers.get("location"))
        try:
            problem = json.loads(answer.read())
        except (OSError, http.client.HTTPException) as error:
            return self._unreachable(error)
        except ValueError:
            problem = None
        if isinstance(problem, dict) and isinstance(problem.get("code"), str):
            return to_station_refusal({**problem, "status": answer.code}, answer.headers)
        if answer.code == 429:
            return _proxy_limit(answer.headers)
        if answer.code >= 500 or not _has_length(answer.headers):
            return StationUnreachable("bad_gateway", f"the way to the station answered {answer.code}")
        message = f"{address} is no station: {answer.code} without a problem document"
        return NotAStation("not_a_station", message)

    def _unreachable(self, error: Exception) -> StationUnreachable:
        cause = getattr(error, "reason", error)
        through = self._proxies.get(urllib.parse.urlsplit(self.origin).scheme)
        by = f" through the proxy {_without_password(through)}" if through else ""
        if isinstance(cause, ssl.SSLError):
            hint = " (give ca_file for a private certification authority)"
            code = "tls_failed" if isinstance(cause, ssl.SSLCertVerificationError) else "unreachable"
            return StationUnreachable(code, f"{self.origin} does not answer{by}: {cause}{hint}")
        timed_out = isinstance(cause, (socket.timeout, TimeoutError))
        why = f"no answer within {self._options['timeout']} s" if timed_out else cause
        return StationUnreachable("unreachable", f"{self.origin} does not answer{by}: {why}")


def _checked_key(key: str) -> str:
    """Returns a key as a header takes it: http.client would print one with a line break in its error."""
    plain = key.strip()
    if re.fullmatch(r"[\x21-\x7e]+", plain) is None:
        raise GasStationError("invalid_key", "the API key has characters that no key has")
    return plain


def _without_password(address: str) -> str:
    return re.sub(r"//[^/@]*@", "//", address)


def _read_json(response: Any) -> Any:
    with response:
        text = response.read()
    try:
        return json.loads(text)
    except ValueError:
        if not _has_length(response.headers):
            raise http.client.IncompleteRead(text) from None
        message = f"{response.url} is no station: the answer is not JSON"
        raise NotAStation("not_a_station", message) from None


def _has_length(headers: Any) -> bool:
    """False for an answer that was cut within its headers: http.client takes the rest as its body."""
    return "content-length" in headers or "transfer-encoding" in headers


def _retry_after(error: GasStationError) -> float | None:
    """How long to wait before a retry, in seconds; None where a retry cannot help."""
    if isinstance(error, StationUnreachable):
        return None if error.code == "tls_failed" else 0
    if not isinstance(error, StationRefusal) or error.code not in _TRANSIENT:
        return None
    # An answer that is repeated from the store does not change.
    if error.headers.get("idempotency-replayed") == "true":
        return None
    seconds = error.retry_after_seconds or _read_retry_after(error.headers)
    return seconds if seconds <= _MAX_RETRY_AFTER_S else None


def _read_retry_after(headers: Any) -> float:
    """The seconds of a Retry-After, which may be a date; 0 for none."""
    text = headers.get("retry-after") or "0"
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def _proxy_limit(headers: Any) -> StationRefusal:
    """A proxy in front of the station has its own limit, and no problem document."""
    detail, wait = "the way to the station answered 429", _read_retry_after(headers)
    return to_station_refusal(
        {"code": "rate_limited", "status": 429, "detail": detail, "retry_after": wait}, headers
    )


def _refusal_in_stream(data: Json) -> GasStationError:
    if isinstance(data.get("code"), str) and isinstance(data.get("status"), int):
        return to_station_refusal(data)
    return NotAStation("not_a_station", "a stream ended with an error that is no problem document")


def _read_events(response: Any) -> Iterator[tuple[str | None, str, Json]]:
    """Yields (id, event, data) of server-sent events; an unfinished one is never yielded."""
    try:
        for id_, event, data in _split_events(response):
            parsed = json.loads(data or "{}")
            if not isinstance(parsed, dict):
                raise ValueError("an event is no object")
            yield id_, event, parsed
    except ValueError as error:
        message = f"{response.url} is no station: its stream cannot be read ({error})"
        raise NotAStation("not_a_station", message) from error


def _split_events(response: Any) -> Iterator[tuple[str | None, str, str]]:
    id_: str | None = None
    event, data = "", ""
    while line := response.readline():
        if not line.endswith(b"\n"):
            return
        if not line.strip():
            if id_ is not None or data:
                yield id_, event, data
            id_, event, data = None, "", ""
            continue
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            id_ = value
        elif name == "event":
            event = value
        elif name == "data":
            data += value
