import {
  addAgent,
  mainKey,
  post,
  someKey,
  withKey,
  type Agent,
  type Key,
  type Maker,
  type Operation,
  type World,
} from './world.ts'

const AMOUNTS = [0.01, 0.02, 0.05, 0.1] as const

const agentOf = ({ chance, agents }: World) => chance.pick(agents)
const other = ({ chance, agents }: World, agent: Agent) =>
  chance.pick(agents.filter((one) => one !== agent))

/** Counts what a bound key has moved, at face value. */
const counted = (key: Key, usdc: number, accepted: number) => (status: number) => {
  if (status === accepted && key.backpack !== null) key.backpack.faceValue += usdc
}

/** Sends, tips and transfers to oneself. */
const send: Maker = (world) => {
  const { chance } = world
  const agent = agentOf(world)
  const key = someKey(world, agent)
  const usdc = chance.pick(AMOUNTS)
  const to = chance.whole(1, 12) === 1 ? agent : other(world, agent)
  const path = chance.pick(['/api/agent/send', '/api/tip'])
  const count = counted(key, usdc, 200)
  const json = { to_agent_id: to.id, amount_usdc: usdc }
  return withKey('send', key, post(path, json), ({ status }) => count(status))
}

const postBounty: Maker = (world) => {
  const { chance } = world
  const agent = agentOf(world)
  const key = someKey(world, agent)
  const usdc = chance.pick([0.05, 0.1, 0.5])
  const about = { title: 'anything', description: 'anything', domain: 'base' }
  const count = counted(key, usdc, 201)
  const json = { ...about, reward_usdc: usdc, ttl_hours: 1 }
  return withKey('bounty', key, post('/api/bounties', json), ({ status, body }) => {
    count(status)
    if (status !== 201) return
    const bounty = { id: String(body['bounty_id']), poster: agent }
    if (key.backpack === null) world.bounties.push(bounty)
    world.followUps.push(claimOf(bounty.id, other(world, agent)))
  })
}

function claimOf(id: string, agent: Agent): Operation {
  const content = 'Anything at all, as it was asked for: a few words on gas fees at weekends.'
  return withKey('claim', mainKey(agent), post(`/api/bounties/${id}/claim`, { content }))
}

const claimBounty: Maker = (world) => {
  const { chance, bounties } = world
  if (bounties.length === 0) return null
  return claimOf(chance.pick(bounties.slice(-10)).id, agentOf(world))
}

const cancelBounty: Maker = (world) => {
  const { chance, bounties } = world
  if (bounties.length === 0) return null
  const { id, poster } = chance.pick(bounties.slice(-10))
  const agent = chance.whole(1, 4) === 1 ? agentOf(world) : poster
  return withKey('cancel bounty', mainKey(agent), { method: 'DELETE', path: `/api/bounties/${id}` })
}

const createReferral: Maker = (world) => {
  const agent = agentOf(world)
  return withKey('referral', mainKey(agent), post('/api/referrals/create'), ({ body }) => {
    const code = body['referral_code']
    if (typeof code === 'string') agent.referralCode = code
  })
}

/** A new agent that spends its starter credits for the one that brought it. */
const onboardReferred: Maker = (world) => {
  const { chance, agents } = world
  const sponsor = chance.pick(agents)
  if (sponsor.referralCode === null) return null
  const address = `198.51.100.${chance.whole(1, 250)}`
  const json = { name: `friend-${world.next()}`, referral_code: sponsor.referralCode }
  return {
    kind: 'onboard referred',
    who: `newcomer ${world.next()}`,
    by: null,
    ask: { ...post('/api/onboard', json), address },
    learn: ({ status, body }) => {
      if (status !== 201) return
      const key = mainKey(addAgent(world, body, address))
      const spent = post('/api/refuel', { tool: 'swarm_broadcast', topic: 'x', message: 'hello' })
      const asked = { method: 'GET', path: '/api/referrals/me' } as const
      for (let call = 0; call < 3; call += 1) world.followUps.push(withKey('call', key, spent))
      world.followUps.push(withKey('referral pay-out', mainKey(sponsor), asked))
      const gift = { to_agent_id: other(world, sponsor).id, amount_usdc: 0.01 }
      world.followUps.push(withKey('send', mainKey(sponsor), post('/api/agent/send', gift)))
    },
  }
}

const redeemDrop: Maker = (world) => {
  const code = world.drops.at(-1)
  if (code === undefined) return null
  return withKey('drop', mainKey(agentOf(world)), post('/api/radio-drop/redeem', { code }))
}

const publishStrategy: Maker = (world) => {
  const agent = agentOf(world)
  const json = { title: `strategy ${world.next()}`, description: 'Batches transfers on Sundays.' }
  const ask = post('/api/strategies', json)
  return withKey('strategy', someKey(world, agent), ask, ({ status, body }) => {
    if (status < 300) world.strategies.push({ id: String(body['id']), author: agent })
  })
}

const forkStrategy: Maker = (world) => {
  const { chance, strategies } = world
  if (strategies.length === 0) return null
  const path = `/api/strategies/${chance.pick(strategies).id}/fork`
  return withKey('fork', someKey(world, agentOf(world)), post(path))
}

const createFleet: Maker = (world) => {
  const agent = agentOf(world)
  const ask = post('/api/fleet/create', { name: `fleet ${world.next()}` })
  return withKey('fleet', mainKey(agent), ask, ({ status, body }) => {
    if (status >= 300) return
    agent.fleets.push(String(body['fleet_id']))
    world.poorFleets.push(String(body['fleet_id']))
  })
}

const joinFleet: Maker = (world) => {
  const owner = agentOf(world)
  const fleetId = owner.fleets.at(-1)
  if (fleetId === undefined) return null
  const member = agentOf(world)
  const json = { fleet_id: fleetId, agent_id: member.id, agent_key: mainKey(member).secret }
  return withKey('join fleet', mainKey(owner), post('/api/fleet/add-agent', json))
}

/** Buys what costs more than starter credits. */
const installPack: Maker = (world) => {
  const { chance } = world
  const key = someKey(world, agentOf(world))
  const slug = chance.pick(['focus-stack', 'iagent-core'])
  return withKey('pack', key, post('/api/packs/install', { slug }))
}

/** What moves value between agents, or gives it away. */
export const valueMakers: Readonly<Record<string, Maker>> = {
  send,
  postBounty,
  claimBounty,
  cancelBounty,
  createReferral,
  onboardReferred,
  redeemDrop,
  publishStrategy,
  forkStrategy,
  createFleet,
  joinFleet,
  installPack,
}
