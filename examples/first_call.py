"""Registers an agent, keeps a budget, and reads a stream: `python3 examples/first_call.py`."""

import os
import sys

# A copy of gas_station.py beside this file does as well.
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../sdk/python"))

from gas_station import BudgetExceeded, GasStation  # noqa: E402

url = os.environ.get("GAS_URL", "http://127.0.0.1:8402")
gas, agent = GasStation.onboard(url, "first-call-py")
print(f"agent {agent['agent_id']} with {agent['starter_credits_usdc']} USDC to begin with")

trending = gas.tools.hive_trending(limit=3)
print(f"paid {trending['_meta']['cost_usdc']} USDC, {trending['_meta']['balance_usdc']} left")

with gas.task("research", 0.005) as task:
    for call in (1, 2):
        try:
            task.call("hive_trending")
            print(f"call {call} was within the budget")
        except BudgetExceeded as error:
            print(f"call {call} was refused: {error.code}")
print(f"the task spent {task.state['spent_usdc']} USDC")

for event, data in gas.stream("hive_trending", {"limit": 2}):
    print(event, data["_meta"]["cost_usdc"] if event == "result" else data)
