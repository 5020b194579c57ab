import { mainKey, post, someKey, withKey, type Maker, type World } from './world.ts'

const agentOf = ({ chance, agents }: World) => chance.pick(agents)

/** A large page, free of charge, whose answer an Idempotency-Key asks to be kept. */
const bigAnswer: Maker = (world) => {
  const json = { tool: 'data_retrieval', url: `${world.site}/big/${world.next()}` }
  const headers = { 'idempotency-key': `big-${world.next()}` }
  return withKey('big answer', mainKey(agentOf(world)), post('/api/refuel', json, headers))
}

/** An entry of the Hive, or one that was written before, by the same or another author. */
const writeHive: Maker = (world) => {
  const { chance, hiveTexts } = world
  const known = hiveTexts.length > 0 && chance.whole(1, 2) === 1
  const text = known
    ? chance.pick(hiveTexts.slice(-12))
    : `Note ${world.next()}: gas on Base is cheaper on weekends, by our log of many hourly samples.`
  const body = { tool: 'hive_write', content: text, namespace: 'base' }
  const ask = post('/api/refuel', body)
  return withKey('hive write', someKey(world, agentOf(world)), ask, ({ status }) => {
    // Of authors who publish one text at the same instant none is the first.
    if (status < 300 && !known) hiveTexts.push(text)
  })
}

const writeVault: Maker = (world) => {
  const agent = agentOf(world)
  const json = { content: `Deployments run at ${world.next()}.`, type: 'fact' }
  const ask = post('/api/vault/write', json)
  return withKey('vault write', someKey(world, agent), ask, ({ status, body }) => {
    if (status < 300) agent.memories.push(String((body['pack'] as { id: string }).id))
  })
}

const shareVault: Maker = (world) => {
  const { chance, agents } = world
  const agent = agentOf(world)
  const memory = agent.memories.at(-1)
  if (memory === undefined) return null
  const json = { entry_id: memory, to_agent_id: chance.pick(agents).id }
  return withKey('vault share', someKey(world, agent), post('/api/vault/share', json))
}

const LISTS = ['/api/bounties', '/api/strategies', '/api/signal/recent', '/api/pulse/live']

/** Numbers that no column can hold. */
const oddNumber: Maker = (world) => {
  const { chance } = world
  const limit = chance.pick(['1e309', '-1e309', '1e-400', 'Infinity', 'NaN', '0x10'])
  const path = `${chance.pick(LISTS)}?limit=${limit}`
  return withKey('odd number', mainKey(agentOf(world)), { method: 'GET', path })
}

/** What makes the station keep bytes. */
export const storageMakers: Readonly<Record<string, Maker>> = {
  bigAnswer,
  writeHive,
  writeVault,
  shareVault,
  oddNumber,
}
