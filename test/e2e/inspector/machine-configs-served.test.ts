import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { createMachine, type AnyStateMachine } from 'xstate'
import { machineRegistry } from '../../../actors/machine-registry.ts'
import {
  outlineMachine,
  createPlainXstateMachine,
} from '../../support/machines/plain-xstate-machine.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** What a developer fetches of each machine, and pastes into plain XState. */

const OPERATOR_TOKEN = 'operator-token-of-this-test'
const { ask, url } = await startInProcessTestStation(t, { OPERATOR_TOKEN })
const read = async (file: string): Promise<{ status: number; text: string }> => {
  const response = await fetch(`${url}/inspector/machines/${file}`)
  return { status: response.status, text: await response.text() }
}

for (const [kind, entry] of Object.entries(machineRegistry)) {
  if (entry.type === 'reducer') {
    t.test(`${kind}, a reducer, is a machine of one state with its events`, async (t) => {
      const { text } = await read(`${kind}.json`)
      const plain = createMachine(JSON.parse(text) as object)
      t.strictSame(plain.events.toSorted(), Object.keys(entry.reducer.on).toSorted())
      t.strictSame(Object.keys(plain.states), [])
    })
    continue
  }
  const machine: AnyStateMachine = entry.machine

  t.test(`${kind}.json in createMachine has the same states and transitions`, async (t) => {
    const { text } = await read(`${kind}.json`)
    const plain = createPlainXstateMachine(machine, JSON.parse(text) as object)
    t.strictSame(outlineMachine(plain), outlineMachine(machine))
  })

  t.test(`${kind}.js is a module that makes the same machine`, async (t) => {
    const { text } = await read(`${kind}.js`)
    const path = join(t.testdir({}), `${kind}.mjs`)
    writeFileSync(path, text)
    const { machine: made } = (await import(pathToFileURL(path).href)) as {
      machine: AnyStateMachine
    }
    t.strictSame(outlineMachine(made), outlineMachine(machine))
  })
}

t.test('other names have no config', async (t) => {
  for (const file of [
    'none.json',
    'agent.yaml',
    '__proto__.json',
    'agent.json%00',
    '..%2Fagent.json',
  ])
    t.ok([400, 404].includes((await read(file)).status), file)
  t.equal((await ask('GET', '/inspector/machines/agent.json')).status, 200, 'without a key')
})
