"""An agent restarts and uses again what may be used again. Needs a daemon: `cargo run --release -- serve`."""

import uuid

import hapax

client = hapax.Client()
memos = client.memos(
    {
        "parsing": {"scope": "same_input"},
        "tool_plan": {"scope": "same_input_same_dep", "requires_revalidate": True},
        "tool_results": {"scope": "never"},
    }
)
turn = hapax.Input(agent="support", session=str(uuid.uuid4()), channel="web", messages=("Refund my order", "12345"))
then = hapax.Dependencies(rules="7", knowledge_base="2026-01")
now = hapax.Dependencies(rules="8", knowledge_base="2026-01")
computed: list[str] = []


def think(phase: str, dependencies: hapax.Dependencies) -> object:
    memo = memos.look_up(phase, turn, dependencies)
    print(f"{phase}, rules {dependencies.rules}: {memo.answer}, because {memo.reason}")
    if memo.answer == "recompute":
        computed.append(phase)
        memos.keep(phase, turn, dependencies, {"of": phase, "rules": dependencies.rules})
    return memo.value


for phase in ("parsing", "tool_plan", "tool_results"):
    think(phase, then)
assert computed == ["parsing", "tool_plan", "tool_results"]
assert think("parsing", then) == {"of": "parsing", "rules": "7"}
assert think("tool_plan", then) == {"of": "tool_plan", "rules": "7"}
assert think("parsing", now) == {"of": "parsing", "rules": "7"}, "it hangs on its input alone"
think("tool_plan", now)
think("tool_results", then)
assert computed[3:] == ["tool_plan", "tool_results"], computed
print("never used again: what a rule of today might see otherwise, and results of tools")
