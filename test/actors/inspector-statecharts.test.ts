import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { toMachineTransitionIds } from '../../actors/machine-transition-ids.ts'
import { machineRegistry } from '../../actors/machine-registry.ts'
import { STATECHARTS_FOLDER, hashMachineConfig } from '../../scripts/docs/write-machine-layouts.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'

/** The committed charts of the inspector follow the machines: `npm run docs:charts` writes them. */

interface Box {
  readonly x: number
  readonly y: number
  readonly w: number
  readonly h: number
}
interface Chart {
  readonly config: string
  readonly width: number
  readonly height: number
  readonly states: readonly (Box & {
    readonly path: string
    readonly rows: readonly { readonly ids: readonly string[] }[]
  })[]
  readonly transitions: readonly { readonly id: string; readonly points: readonly unknown[] }[]
}

for (const [kind, entry] of Object.entries(machineRegistry)) {
  const path = join(REPOSITORY_ROOT, STATECHARTS_FOLDER, `${kind}.json`)
  const hasStates = entry.type === 'machine'
  t.test(`${kind} has ${hasStates ? 'its chart' : 'no chart'}`, async (t) => {
    t.equal(existsSync(path), hasStates)
    if (!hasStates) return
    const { machine } = entry
    const chart = JSON.parse(readFileSync(path, 'utf8')) as Chart
    t.equal(chart.config, hashMachineConfig(machine), 'laid out from this config')
    const drawn = [
      ...chart.transitions.map(({ id }) => id),
      ...chart.states.flatMap(({ rows }) => rows.flatMap(({ ids }) => ids)),
    ]
    t.strictSame(
      drawn.sort(),
      [...toMachineTransitionIds(machine).values()].sort(),
      'every transition',
    )
    for (const { points } of chart.transitions) t.ok(points.length >= 2)
    const boxes = new Map(chart.states.map((state) => [state.path, state]))
    for (const [path, state] of boxes) {
      const outer = boxes.get(path.split('.').slice(0, -1).join('.'))
      if (path !== '' && outer !== undefined) t.ok(isInside(state, outer), `${path} in its parent`)
    }
  })
}

function isInside(inner: Box, outer: Box): boolean {
  return (
    inner.x >= outer.x &&
    inner.y >= outer.y &&
    inner.x + inner.w <= outer.x + outer.w &&
    inner.y + inner.h <= outer.y + outer.h
  )
}
