import { randomUUID } from 'node:crypto'
import {
  addAdversaryAgent,
  mainKeyOfAdversaryAgent,
  adversaryPostRequest,
  pickUsableAdversaryKey,
  adversaryOperationWithKey,
  type AdversaryOperationGenerator,
  type AdversaryOperation,
  type AdversaryState,
} from './adversary-state.ts'

/** Operations that try to read the secrets of onboardings, keys and keyrings. */

const agentOf = ({ chance, agents }: AdversaryState) => chance.pick(agents)

/** Two clients behind one address onboard with the same guessable Idempotency-Key. */
const onboardTwice: AdversaryOperationGenerator = (world) => {
  const { chance } = world
  const address = `203.0.113.${chance.integer(1, 250)}`
  const name = chance.integer(1, 4) === 1 ? randomUUID() : `onboard-${world.nextNumber()}`
  const request = {
    ...adversaryPostRequest('/api/onboard', { name: 'scout' }, { 'idempotency-key': name }),
    address,
  }
  const stranger = (): AdversaryOperation => ({
    kind: 'onboard replay',
    request,
    credentialHolder: name.startsWith('onboard')
      ? `stranger ${world.nextNumber()}`
      : `client ${name}`,
    key: null,
  })
  world.followUps.push(stranger())
  return stranger()
}

/** Onboards batches of agents from one address until its hourly limit. */
const onboardBulk: AdversaryOperationGenerator = (world) => {
  const address = `192.0.2.${world.chance.integer(1, 12)}`
  const size = world.chance.integer(1, 20)
  const agents = Array.from({ length: size }, () => ({ name: `bulk-${world.nextNumber()}` }))
  return {
    kind: 'onboard bulk',
    credentialHolder: `bulk ${world.nextNumber()}`,
    key: null,
    request: { ...adversaryPostRequest('/api/onboard/bulk', { agents }), address },
    learn: ({ status, body }) => {
      if (status !== 200) return
      const [first] = body['agents'] as Readonly<Record<string, unknown>>[]
      if (first !== undefined) addAdversaryAgent(world, first, address)
    },
  }
}

/** Another key repeats a request with its Idempotency-Key on another route. */
const replayForeign: AdversaryOperationGenerator = (world) => {
  const { chance, repeatable } = world
  const first = repeatable.at(-chance.integer(1, 30))
  if (first === undefined || first.key === null) return null
  const key =
    chance.integer(1, 2) === 1
      ? pickUsableAdversaryKey(world, first.key.agent)
      : mainKeyOfAdversaryAgent(agentOf(world))
  const { key: _key, address: _address, ...ask } = first.request
  const json = chance.integer(1, 3) === 1 ? { ...ask.json, limit: 7 } : (ask.json ?? {})
  const path = chance.integer(1, 5) === 1 ? '/api/t/hive-trending' : ask.path
  return adversaryOperationWithKey('replay', key, { ...ask, json, path })
}

/** Stores a keyring secret and calls hosts that echo it. */
const keepSecret: AdversaryOperationGenerator = (world) => {
  const agent = agentOf(world)
  const backpack = agent.backpacks.at(-1)
  if (backpack === undefined) return null
  const secret = `sk-live-${world.nextNumber()}-${'abcdefgh'.repeat(2)}`
  const host = new URL(world.site).host
  const path = `/api/backpack/${backpack.id}/keyring`
  const ask = adversaryPostRequest(path, { name: 'TOKEN', secret, hosts: [host] })
  return adversaryOperationWithKey('keyring', mainKeyOfAdversaryAgent(agent), ask, ({ status }) => {
    if (status >= 300) return
    world.keyring.push(secret)
    const use = { 'x-backpack-id': backpack.id }
    for (const page of ['/redirect', '/echo']) {
      const json = {
        tool: 'data_retrieval',
        url: `${world.site}${page}`,
        headers: { 'x-token': '{{keyring.TOKEN}}' },
      }
      const call = adversaryPostRequest('/api/refuel', json, use)
      world.followUps.push(
        adversaryOperationWithKey('keyring use', mainKeyOfAdversaryAgent(agent), call),
      )
      const thief = mainKeyOfAdversaryAgent(agentOf(world))
      if (thief.agent !== agent)
        world.followUps.push(adversaryOperationWithKey('keyring theft', thief, call))
    }
  })
}

/** Other keys of the agent ask for the private key of its wallet again. */
const exportWallet: AdversaryOperationGenerator = (world) => {
  const agent = agentOf(world)
  const headers = { 'idempotency-key': randomUUID() }
  const ask = adversaryPostRequest('/api/wallet/export', { confirm: true }, headers)
  return adversaryOperationWithKey(
    'wallet export',
    mainKeyOfAdversaryAgent(agent),
    ask,
    ({ status }) => {
      if (status !== 200) return
      const others = agent.keys.filter(
        (key) => key !== mainKeyOfAdversaryAgent(agent) && !key.revoked,
      )
      for (const key of others)
        world.followUps.push(adversaryOperationWithKey('replay export', key, ask))
    },
  )
}

/** Secrets of onboardings, keys and keyrings. */
export const adversarySecretOperationGenerators: Readonly<
  Record<string, AdversaryOperationGenerator>
> = {
  onboardTwice,
  onboardBulk,
  replayForeign,
  keepSecret,
  exportWallet,
}
