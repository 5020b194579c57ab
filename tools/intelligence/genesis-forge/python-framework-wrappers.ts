import type { AgentFramework } from './agent-blueprint.ts'

/** Returns the Python packages that a framework needs. */
export const pythonPackagesOfFramework = (framework: AgentFramework): string =>
  PACKAGES[framework] ?? ''

/** Returns code that wraps the tools and their schemas for a framework; each call goes through `use`. */
export const pythonFrameworkWrapper = (framework: AgentFramework): string =>
  WRAPPERS[framework] ?? ''

const PACKAGES: Partial<Record<AgentFramework, string>> = {
  langchain: '; as_langchain_tools needs langchain-core',
  autogen: '; its schemas are for autogen-core',
  crewai: '; as_crewai_tools needs crewai',
  openai: '; its schemas are for openai',
}

const WRAPPERS: Partial<Record<AgentFramework, string>> = {
  langchain: `
def as_langchain_tools() -> list:
    """The tools with their JSON schemas, for an agent of LangChain."""
    from langchain_core.tools import StructuredTool

    def wrap(tool: dict):
        def run(**fields) -> dict:
            return use(tool["name"], fields)

        return StructuredTool.from_function(
            run,
            name=tool["name"],
            description=tool["description"],
            args_schema=tool["parameters"],
        )

    return [wrap(tool) for tool in TOOLS.values()]

`,
  autogen: `
def as_autogen_tools() -> list:
    """Schemas for \`tools\` of a model client of AutoGen; answer a call of one with use."""
    return [
        {key: tool[key] for key in ("name", "description", "parameters")}
        for tool in TOOLS.values()
    ]

`,
  crewai: `
def as_crewai_tools() -> list:
    """The tools with their JSON schemas, for an agent of CrewAI."""
    from typing import Annotated, Any

    from crewai.tools import BaseTool
    from pydantic import WithJsonSchema, create_model

    def wrap(one: dict):
        schema = one["parameters"]
        required = schema.get("required", [])
        fields = {
            field: (Annotated[Any, WithJsonSchema(shape)], ... if field in required else None)
            for field, shape in schema.get("properties", {}).items()
        }

        class StationTool(BaseTool):
            def _run(self, **given) -> dict:
                return use(one["name"], {k: v for k, v in given.items() if v is not None})

        return StationTool(
            name=one["name"],
            description=one["description"],
            args_schema=create_model(one["name"], **fields),
        )

    return [wrap(one) for one in TOOLS.values()]

`,
  openai: `
def as_openai_tools() -> list:
    """For the parameter \`tools\` of a chat; answer a call of one with use."""
    return [
        {
            "type": "function",
            "function": {key: tool[key] for key in ("name", "description", "parameters")},
        }
        for tool in TOOLS.values()
    ]

`,
}
