import { randomUUID } from 'node:crypto'
import {
  addAgent,
  mainKey,
  post,
  someKey,
  withKey,
  type Maker,
  type Operation,
  type World,
} from './world.ts'

const agentOf = ({ chance, agents }: World) => chance.pick(agents)

/** Two strangers behind one address onboard with an Idempotency-Key that anybody could guess. */
const onboardTwice: Maker = (world) => {
  const { chance } = world
  const address = `203.0.113.${chance.whole(1, 250)}`
  const name = chance.whole(1, 4) === 1 ? randomUUID() : `onboard-${world.next()}`
  const ask = {
    ...post('/api/onboard', { name: 'scout' }, { 'idempotency-key': name }),
    address,
  }
  const stranger = (): Operation => ({
    kind: 'onboard replay',
    ask,
    who: name.startsWith('onboard') ? `stranger ${world.next()}` : `client ${name}`,
    by: null,
  })
  world.followUps.push(stranger())
  return stranger()
}

/** Batches of new agents from one address, until its hour is full. */
const onboardBulk: Maker = (world) => {
  const address = `192.0.2.${world.chance.whole(1, 12)}`
  const size = world.chance.whole(1, 20)
  const agents = Array.from({ length: size }, () => ({ name: `bulk-${world.next()}` }))
  return {
    kind: 'onboard bulk',
    who: `bulk ${world.next()}`,
    by: null,
    ask: { ...post('/api/onboard/bulk', { agents }), address },
    learn: ({ status, body }) => {
      if (status !== 200) return
      const [first] = body['agents'] as Readonly<Record<string, unknown>>[]
      if (first !== undefined) addAgent(world, first, address)
    },
  }
}

/** The first answer of somebody's request is asked for by another key, at another door. */
const replayForeign: Maker = (world) => {
  const { chance, repeatable } = world
  const first = repeatable.at(-chance.whole(1, 30))
  if (first === undefined || first.by === null) return null
  const key = chance.whole(1, 2) === 1 ? someKey(world, first.by.agent) : mainKey(agentOf(world))
  const { key: _key, address: _address, ...ask } = first.ask
  const json = chance.whole(1, 3) === 1 ? { ...ask.json, limit: 7 } : (ask.json ?? {})
  const path = chance.whole(1, 5) === 1 ? '/api/t/hive-trending' : ask.path
  return withKey('replay', key, { ...ask, json, path })
}

/** A secret of a keyring, and hosts that send it back. */
const keepSecret: Maker = (world) => {
  const agent = agentOf(world)
  const backpack = agent.backpacks.at(-1)
  if (backpack === undefined) return null
  const secret = `sk-live-${world.next()}-${'abcdefgh'.repeat(2)}`
  const host = new URL(world.site).host
  const path = `/api/backpack/${backpack.id}/keyring`
  const ask = post(path, { name: 'TOKEN', secret, hosts: [host] })
  return withKey('keyring', mainKey(agent), ask, ({ status }) => {
    if (status >= 300) return
    world.keyring.push(secret)
    const use = { 'x-backpack-id': backpack.id }
    for (const page of ['/redirect', '/echo']) {
      const json = {
        tool: 'data_retrieval',
        url: `${world.site}${page}`,
        headers: { 'x-token': '{{keyring.TOKEN}}' },
      }
      const call = post('/api/refuel', json, use)
      world.followUps.push(withKey('keyring use', mainKey(agent), call))
      const thief = mainKey(agentOf(world))
      if (thief.agent !== agent) world.followUps.push(withKey('keyring theft', thief, call))
    }
  })
}

/** The private key of a wallet, asked for again by other keys of its agent. */
const exportWallet: Maker = (world) => {
  const agent = agentOf(world)
  const headers = { 'idempotency-key': randomUUID() }
  const ask = post('/api/wallet/export', { confirm: true }, headers)
  return withKey('wallet export', mainKey(agent), ask, ({ status }) => {
    if (status !== 200) return
    const others = agent.keys.filter((key) => key !== mainKey(agent) && !key.revoked)
    for (const key of others) world.followUps.push(withKey('replay export', key, ask))
  })
}

/** What an onboarding, a key or a keyring must show to nobody else. */
export const secretMakers: Readonly<Record<string, Maker>> = {
  onboardTwice,
  onboardBulk,
  replayForeign,
  keepSecret,
  exportWallet,
}
