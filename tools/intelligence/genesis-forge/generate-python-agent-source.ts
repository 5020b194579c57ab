import { AGENT_STOP_ERROR_CODES } from './agent-stop-error-codes.ts'
import { pythonPackagesOfFramework, pythonFrameworkWrapper } from './python-framework-wrappers.ts'
import type { AgentBlueprint } from './agent-blueprint.ts'

/**
 * Generates `agent.py`, which executes the planned steps of a task. A JSON string is also a Python literal.
 */
export function generatePythonAgentSource({ name, framework, baseUrl }: AgentBlueprint): string {
  return String.raw`# ${name}: needs Python 3.10 and GAS_API_KEY in its environment${pythonPackagesOfFramework(framework)}.
"""Does the task it was made for (plan.json), or another one that is given in words.

A tool that acts on others (mail, messages, publications, forms, transactions) runs only after a
person has confirmed the exact call, or with --allow TOOL. Fields that the task leaves open are asked
for at the terminal, or given with --set TOOL.FIELD=VALUE.
"""
import argparse
import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
BASE_URL = (os.environ.get("GAS_URL") or ${JSON.stringify(baseUrl)}).rstrip("/")
SYSTEM_PROMPT = (HERE / "system-prompt.md").read_text(encoding="utf-8")
TOOLS = {one["name"]: one for one in json.loads((HERE / "tools.json").read_text(encoding="utf-8"))}
# The one route of a plan without effects on others.
CREW = "/api/agent/crew"
# After one of these the work ends: a limit is not to be worked around.
ENDING_CODES = ${JSON.stringify(AGENT_STOP_ERROR_CODES)}
OPEN = re.compile(r"<[^<>]+>")
EARLIER = re.compile(r"<what steps? ([0-9, and]+) answered>")


class Refused(Exception):
    """A call that was not made, or that the station refused; code says why."""

    def __init__(self, name: str, code: str, detail: str):
        super().__init__(f"{name}: {code}, {detail}")
        self.code = code


def post(path: str, fields: dict, name: str) -> dict:
    """One request; raises Refused with the code of the refusal."""
    request = urllib.request.Request(
        BASE_URL + path,
        data=json.dumps(fields).encode(),
        headers={
            "content-type": "application/json",
            "x-api-key": os.environ.get("GAS_API_KEY", ""),
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=100) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        try:
            problem = json.load(error)
        except ValueError:
            problem = {}
        code = str(problem.get("code", error.code))
        raise Refused(name, code, str(problem.get("detail", error.reason))) from error
    except OSError as error:
        raise Refused(name, "unreachable", str(error)) from error


def call_tool(tool: str, **fields) -> dict:
    """Calls one tool without a confirmation; raises Refused."""
    return post("/api/refuel", {**fields, "tool": tool}, tool)


def acts_on_others(name: str) -> bool:
    """Whether a call reaches others. What is not known is taken to."""
    return name != CREW and TOOLS.get(name, {}).get("acts_on_others", True)


def ask(name: str, fields: dict) -> bool:
    """Asks the person at the terminal about one exact call. Without a terminal the answer is no."""
    if not sys.stdin.isatty():
        return False
    print(f"{name} acts on others. It would be called with:")
    print(json.dumps(fields, indent=2, ensure_ascii=False))
    return input("Run it? [y/N] ").strip().lower() in ("y", "yes")


def use(name: str, fields: dict, confirm=ask) -> dict:
    """Calls a tool or a route; one that acts on others only when confirm says yes to this call."""
    if acts_on_others(name) and not confirm(name, fields):
        detail = f"it acts on others and was not confirmed; allow it with --allow {name}"
        raise Refused(name, "not_confirmed", detail)
    if name.startswith("/"):
        return post(name, fields, name)
    return call_tool(name, **fields)

${pythonFrameworkWrapper(framework)}
def text_of(answer: dict) -> str:
    """What a later step is given of an answer."""
    for field in ("text", "answer", "body_text"):
        if isinstance(answer.get(field), str):
            return answer[field]
    return json.dumps({k: v for k, v in answer.items() if k != "_meta"}, ensure_ascii=False)


def filled(value, answers: dict):
    """The value with what earlier steps answered, and whether it still leaves something open."""
    if isinstance(value, list):
        parts = [filled(one, answers) for one in value]
        return [part for part, _ in parts], any(still for _, still in parts)
    if isinstance(value, dict):
        parts = {key: filled(one, answers) for key, one in value.items()}
        return {key: part for key, (part, _) in parts.items()}, any(s for _, s in parts.values())
    if not isinstance(value, str):
        return value, False
    if OPEN.search(EARLIER.sub("", value)):
        return value, True
    steps = [int(one) for told in EARLIER.findall(value) for one in re.findall(r"[0-9]+", told)]
    if any(step not in answers for step in steps):
        return value, True
    said = lambda told: "\n\n".join(answers[int(one)] for one in re.findall(r"[0-9]+", told[1]))
    return EARLIER.sub(said, value), False


def given_as(name: str, field: str, text: str):
    """A value from the command line or the terminal, by the schema of its field."""
    schema = TOOLS.get(name, {}).get("parameters", {}).get("properties", {}).get(field, {})
    if schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def complete(name: str, example: dict, answers: dict, given: dict) -> dict:
    """The fields of one call; raises Refused if an open field is not given."""
    schema = TOOLS.get(name, {}).get("parameters", {}).get("properties", {})
    fields = {}
    for field, wanted in example.items():
        if field == "tool" or field in given:
            continue
        value, still_open = filled(wanted, answers)
        if still_open:
            said = input(f"{name}, {field} {value}: ") if sys.stdin.isatty() else ""
            if said == "":
                detail = f"{field} is open: {value}; give it with --set {name}.{field}=VALUE"
                raise Refused(name, "open_field", detail)
            value = given_as(name, field, said)
        longest = schema.get(field, {}).get("maxLength")
        fields[field] = value[:longest] if longest and isinstance(value, str) else value
    return {**fields, **given}


def do_task(steps: list, given: dict, confirm=ask) -> bool:
    """Does the steps in their order and prints what they answer; False where one was not done."""
    answers, done = {}, True
    for step in steps:
        number, name = step["step"], step["tool"] or urlsplit(step["endpoint"]).path
        if step["example"] is None:
            continue
        try:
            fields = complete(name, step["example"], answers, given.get(name, {}))
            answer = use(name, fields, confirm)
        except Refused as refusal:
            print(f"step {number} was not done: {refusal}", file=sys.stderr)
            done = False
            if refusal.code in ENDING_CODES:
                break
            continue
        answers[number] = text_of(answer)
        print(f"step {number}, {name}: {json.dumps(answer, indent=2, ensure_ascii=False)}")
    return done


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("task", nargs="?", help="10 to 500 characters; by default its own task")
    options.add_argument("--allow", action="append", default=[], metavar="TOOL")
    options.add_argument("--set", action="append", default=[], metavar="TOOL.FIELD=VALUE")
    asked = options.parse_args()
    given: dict = {}
    for one in asked.set:
        where, equals, text = one.partition("=")
        name, dot, field = where.rpartition(".")
        if not (equals and dot):
            options.error(f"--set takes TOOL.FIELD=VALUE, not {one}")
        given.setdefault(name, {})[field] = given_as(name, field, text)
    try:
        plan = (
            json.loads((HERE / "plan.json").read_text(encoding="utf-8"))
            if asked.task is None
            else post("/api/agent/plan", {"task": asked.task}, "plan")
        )
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    if plan["note"] is not None:
        print(plan["note"], file=sys.stderr)
    allowed = set(asked.allow)
    confirm = lambda name, fields: name in allowed or ask(name, fields)
    return 0 if do_task(plan["steps"], given, confirm) else 1


if __name__ == "__main__":
    sys.exit(main())
`
}
