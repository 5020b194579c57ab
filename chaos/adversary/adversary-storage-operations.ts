import {
  mainKeyOfAdversaryAgent,
  adversaryPostRequest,
  pickUsableAdversaryKey,
  adversaryOperationWithKey,
  type AdversaryOperationGenerator,
  type AdversaryState,
} from './adversary-state.ts'

/** Operations that make the station store bytes. */

const agentOf = ({ chance, agents }: AdversaryState) => chance.pick(agents)

/**
 * Fetches a large page free of charge with an Idempotency-Key, which asks for a stored response.
 */
const bigAnswer: AdversaryOperationGenerator = (world) => {
  const json = { tool: 'data_retrieval', url: `${world.site}/big/${world.nextNumber()}` }
  const headers = { 'idempotency-key': `big-${world.nextNumber()}` }
  return adversaryOperationWithKey(
    'big answer',
    mainKeyOfAdversaryAgent(agentOf(world)),
    adversaryPostRequest('/api/refuel', json, headers),
  )
}

/** Writes a new Hive entry, or repeats one as the same or another author. */
const writeHive: AdversaryOperationGenerator = (world) => {
  const { chance, hiveTexts } = world
  const known = hiveTexts.length > 0 && chance.integer(1, 2) === 1
  const text = known
    ? chance.pick(hiveTexts.slice(-12))
    : `Note ${world.nextNumber()}: gas on Base is cheaper on weekends, by our log of many hourly samples.`
  const body = { tool: 'hive_write', content: text, namespace: 'base' }
  const ask = adversaryPostRequest('/api/refuel', body)
  return adversaryOperationWithKey(
    'hive write',
    pickUsableAdversaryKey(world, agentOf(world)),
    ask,
    ({ status }) => {
      // When two authors publish one text concurrently, neither is known to be first.
      if (status < 300 && !known) hiveTexts.push(text)
    },
  )
}

const writeVault: AdversaryOperationGenerator = (world) => {
  const agent = agentOf(world)
  const json = { content: `Deployments run at ${world.nextNumber()}.`, type: 'fact' }
  const ask = adversaryPostRequest('/api/vault/write', json)
  return adversaryOperationWithKey(
    'vault write',
    pickUsableAdversaryKey(world, agent),
    ask,
    ({ status, body }) => {
      if (status < 300) agent.memories.push(String((body['pack'] as { id: string }).id))
    },
  )
}

const shareVault: AdversaryOperationGenerator = (world) => {
  const { chance, agents } = world
  const agent = agentOf(world)
  const memory = agent.memories.at(-1)
  if (memory === undefined) return null
  const json = { entry_id: memory, to_agent_id: chance.pick(agents).id }
  return adversaryOperationWithKey(
    'vault share',
    pickUsableAdversaryKey(world, agent),
    adversaryPostRequest('/api/vault/share', json),
  )
}

const LISTS = ['/api/bounties', '/api/strategies', '/api/signal/recent', '/api/pulse/live']

/** Sends numbers that no column can hold. */
const oddNumber: AdversaryOperationGenerator = (world) => {
  const { chance } = world
  const limit = chance.pick(['1e309', '-1e309', '1e-400', 'Infinity', 'NaN', '0x10'])
  const path = `${chance.pick(LISTS)}?limit=${limit}`
  return adversaryOperationWithKey('odd number', mainKeyOfAdversaryAgent(agentOf(world)), {
    method: 'GET',
    path,
  })
}

/** Operations that make the station store bytes. */
export const adversaryStorageOperationGenerators: Readonly<
  Record<string, AdversaryOperationGenerator>
> = {
  bigAnswer,
  writeHive,
  writeVault,
  shareVault,
  oddNumber,
}
