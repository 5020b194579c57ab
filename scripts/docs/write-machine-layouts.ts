import { createHash } from 'node:crypto'
import type { AnyStateMachine } from 'xstate'
import { machineRegistry } from '../../actors/machine-registry.ts'
import { machineConfigJson } from '../../machines/machine-config-json.ts'
import { layOutStatechart, type StatechartLayout } from './statechart-layout/statechart-layout.ts'
import { toMachineGraph } from './statechart-layout/machine-graph.ts'
import { writeGeneratedFile } from './write-generated-docs.ts'

/** Writes the charts that the inspector draws, one file a machine. */

export const STATECHARTS_FOLDER = 'web/inspector/charts'

/** A chart names the hash of the config it was laid out from. */
export const hashMachineConfig = (machine: AnyStateMachine): string =>
  createHash('sha256').update(machineConfigJson(machine)).digest('hex').slice(0, 16)

/** JSON with a line for each state and transition, so that changes are readable. */
function printChart(
  head: object,
  { states, transitions, initials, width, height }: StatechartLayout,
): string {
  const list = (items: readonly object[]) =>
    `[${items.map((item) => `\n  ${JSON.stringify(item)}`).join(',')}]`
  const fields = Object.entries({ ...head, width, height }).map(
    ([name, value]) => `"${name}": ${JSON.stringify(value)}`,
  )
  return `{ ${fields.join(', ')},
"states": ${list(states)},
"initials": ${list(initials)},
"transitions": ${list(transitions)} }\n`
}

export async function writeMachineLayouts(): Promise<void> {
  for (const [kind, entry] of Object.entries(machineRegistry)) {
    if (entry.type === 'reducer') continue
    const { machine } = entry
    const graph = toMachineGraph(machine)
    const head = { kind, machine: machine.id, config: hashMachineConfig(machine) }
    const chart = printChart(head, await layOutStatechart(graph))
    writeGeneratedFile(`${STATECHARTS_FOLDER}/${kind}.json`, chart)
  }
}
