"""Runs gas_station.py for a test: one JSON request a line on stdin, one JSON answer on stdout."""

import email.message
import json
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import gas_station  # noqa: E402


def say(answer):
    print(json.dumps(answer), flush=True)


def sign(data):
    """The test signs, since the standard library has no curve of Ethereum."""
    say({"sign": data})
    return json.loads(sys.stdin.readline())["signature"]


def run(what, client, args, named):
    if what == "challenges":
        return [gas_station._write_challenge(one) for one in gas_station._read_challenges(args[0])]
    if what == "pay":
        problem, headers, quote, hook = args
        made = gas_station.PaymentHook(
            **hook, sign_typed_data=sign, solana_transaction=lambda transfer: json.dumps(transfer)
        )
        message = email.message.Message()
        for name, text in headers.items():
            message[name] = text
        return made.pay(gas_station.PaymentRequired(problem, message), lambda: quote)
    if what == "classes":
        return {c: type(gas_station.to_station_refusal({"code": c, "status": s})).__name__ for c, s in args}
    if client.pop("payment", None):
        client["payment"] = HOOKS.setdefault("hook", None) or new_hook()
    if what == "onboard":
        return gas_station.GasStation.onboard(client.pop("url"), "py", **client)[1]
    gas = gas_station.GasStation(**client)
    if what == "infinite":
        return [code_of(send) for number in map(float, ["nan", "inf", "-inf"]) for send in (
            lambda: gas.request("PATCH", "/api/backpack/bp_x", {"fuse": {"per_day_usdc": number}}),
            lambda: gas.call("hive_trending", {"limit": [number]}),
            lambda: list(gas.stream("hive_trending", {"limit": number})),
        )]
    if what == "task":
        name, budget, calls = args
        with gas.task(name, budget) as task:
            for tool in calls:
                task.call(tool)
        return task.state
    if what == "tool":
        return getattr(gas.tools, args[0])(**args[1])
    if what == "threads":
        return in_threads(gas, *args)
    if what == "signals":
        heard = []
        for event, data in gas.signals(*args[:2]):
            heard.append(data.get("payload") or event)
            if len(heard) == args[2]:
                return heard
    result = getattr(gas, what)(*args, **named)
    return list(result) if what == "stream" else result


def code_of(send):
    try:
        return send()
    except gas_station.GasStationError as error:
        return error.code


def in_threads(gas, count, tool, key):
    """Makes the same call in several threads at once."""
    answers, together = [], threading.Barrier(count)

    def call():
        together.wait()
        try:
            answers.append(gas.call(tool, {}, idempotency_key=key))
        except gas_station.GasStationError as error:
            answers.append({"error": error.code})

    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


HOOKS = {}


def new_hook():
    options = dict(HOOK_OPTIONS)
    if options.pop("mpp", False):
        made = []
        options["mpp_credential"] = lambda challenge: made.append(challenge) or f"Payment {len(made)}"
    if "stored" in options:
        stored = options.pop("stored")
        options["load"] = lambda: stored
    HOOKS["hook"] = gas_station.PaymentHook(**options, sign_typed_data=sign)
    return HOOKS["hook"]


for line in sys.stdin:
    request = json.loads(line)
    HOOK_OPTIONS = request.get("hook", {})
    if "clock" in request:
        real = time.time
        gas_station.time.time = lambda real=real, by=request["clock"]: real() + by
    try:
        args, named = request.get("args", []), request.get("named", {})
        say({"result": run(request["what"], request.get("client", {}), args, named)})
    except gas_station.GasStationError as error:
        say({"error": type(error).__name__, "code": error.code, "message": str(error)})
