import {
  addAdversaryAgent,
  mainKeyOfAdversaryAgent,
  adversaryPostRequest,
  pickUsableAdversaryKey,
  adversaryOperationWithKey,
  type AdversaryAgent,
  type AdversaryKey,
  type AdversaryOperationGenerator,
  type AdversaryOperation,
  type AdversaryState,
} from './adversary-state.ts'

/** Operations that move value between agents. */

const AMOUNTS = [0.01, 0.02, 0.05, 0.1] as const

const agentOf = ({ chance, agents }: AdversaryState) => chance.pick(agents)
const other = ({ chance, agents }: AdversaryState, agent: AdversaryAgent) =>
  chance.pick(agents.filter((one) => one !== agent))

/** Counts what a bound key has moved, at face value. */
const faceValueCounter =
  (key: AdversaryKey, usdc: number, accepted: number) => (status: number) => {
    if (status === accepted && key.backpack !== null) key.backpack.faceValue += usdc
  }

/** Sends, tips and transfers to oneself. */
const send: AdversaryOperationGenerator = (world) => {
  const { chance } = world
  const agent = agentOf(world)
  const key = pickUsableAdversaryKey(world, agent)
  const usdc = chance.pick(AMOUNTS)
  const to = chance.integer(1, 12) === 1 ? agent : other(world, agent)
  const path = chance.pick(['/api/agent/send', '/api/tip'])
  const count = faceValueCounter(key, usdc, 200)
  const json = { to_agent_id: to.id, amount_usdc: usdc }
  return adversaryOperationWithKey('send', key, adversaryPostRequest(path, json), ({ status }) =>
    count(status),
  )
}

const postBounty: AdversaryOperationGenerator = (world) => {
  const { chance } = world
  const agent = agentOf(world)
  const key = pickUsableAdversaryKey(world, agent)
  const usdc = chance.pick([0.05, 0.1, 0.5])
  const about = { title: 'anything', description: 'anything', domain: 'base' }
  const count = faceValueCounter(key, usdc, 201)
  const json = { ...about, reward_usdc: usdc, ttl_hours: 1 }
  return adversaryOperationWithKey(
    'bounty',
    key,
    adversaryPostRequest('/api/bounties', json),
    ({ status, body }) => {
      count(status)
      if (status !== 201) return
      const bounty = { id: String(body['bounty_id']), poster: agent }
      if (key.backpack === null) world.bounties.push(bounty)
      world.followUps.push(claimOf(bounty.id, other(world, agent)))
    },
  )
}

function claimOf(id: string, agent: AdversaryAgent): AdversaryOperation {
  const content = 'Anything at all, as it was asked for: a few words on gas fees at weekends.'
  return adversaryOperationWithKey(
    'claim',
    mainKeyOfAdversaryAgent(agent),
    adversaryPostRequest(`/api/bounties/${id}/claim`, { content }),
  )
}

const claimBounty: AdversaryOperationGenerator = (world) => {
  const { chance, bounties } = world
  if (bounties.length === 0) return null
  return claimOf(chance.pick(bounties.slice(-10)).id, agentOf(world))
}

const cancelBounty: AdversaryOperationGenerator = (world) => {
  const { chance, bounties } = world
  if (bounties.length === 0) return null
  const { id, poster } = chance.pick(bounties.slice(-10))
  const agent = chance.integer(1, 4) === 1 ? agentOf(world) : poster
  return adversaryOperationWithKey('cancel bounty', mainKeyOfAdversaryAgent(agent), {
    method: 'DELETE',
    path: `/api/bounties/${id}`,
  })
}

const createReferral: AdversaryOperationGenerator = (world) => {
  const agent = agentOf(world)
  return adversaryOperationWithKey(
    'referral',
    mainKeyOfAdversaryAgent(agent),
    adversaryPostRequest('/api/referrals/create'),
    ({ body }) => {
      const code = body['referral_code']
      if (typeof code === 'string') agent.referralCode = code
    },
  )
}

/** A new agent spends its starter credits for its referrer. */
const onboardReferred: AdversaryOperationGenerator = (world) => {
  const { chance, agents } = world
  const sponsor = chance.pick(agents)
  if (sponsor.referralCode === null) return null
  const address = `198.51.100.${chance.integer(1, 250)}`
  const json = { name: `friend-${world.nextNumber()}`, referral_code: sponsor.referralCode }
  return {
    kind: 'onboard referred',
    credentialHolder: `newcomer ${world.nextNumber()}`,
    key: null,
    request: { ...adversaryPostRequest('/api/onboard', json), address },
    learn: ({ status, body }) => {
      if (status !== 201) return
      const key = mainKeyOfAdversaryAgent(addAdversaryAgent(world, body, address))
      const spent = adversaryPostRequest('/api/refuel', {
        tool: 'swarm_broadcast',
        topic: 'x',
        message: 'hello',
      })
      const asked = { method: 'GET', path: '/api/referrals/me' } as const
      for (let call = 0; call < 3; call += 1)
        world.followUps.push(adversaryOperationWithKey('call', key, spent))
      world.followUps.push(
        adversaryOperationWithKey('referral pay-out', mainKeyOfAdversaryAgent(sponsor), asked),
      )
      const gift = { to_agent_id: other(world, sponsor).id, amount_usdc: 0.01 }
      world.followUps.push(
        adversaryOperationWithKey(
          'send',
          mainKeyOfAdversaryAgent(sponsor),
          adversaryPostRequest('/api/agent/send', gift),
        ),
      )
    },
  }
}

const redeemDrop: AdversaryOperationGenerator = (world) => {
  const code = world.drops.at(-1)
  if (code === undefined) return null
  return adversaryOperationWithKey(
    'drop',
    mainKeyOfAdversaryAgent(agentOf(world)),
    adversaryPostRequest('/api/radio-drop/redeem', { code }),
  )
}

const publishStrategy: AdversaryOperationGenerator = (world) => {
  const agent = agentOf(world)
  const json = {
    title: `strategy ${world.nextNumber()}`,
    description: 'Batches transfers on Sundays.',
  }
  const ask = adversaryPostRequest('/api/strategies', json)
  return adversaryOperationWithKey(
    'strategy',
    pickUsableAdversaryKey(world, agent),
    ask,
    ({ status, body }) => {
      if (status < 300) world.strategies.push({ id: String(body['id']), author: agent })
    },
  )
}

const forkStrategy: AdversaryOperationGenerator = (world) => {
  const { chance, strategies } = world
  if (strategies.length === 0) return null
  const path = `/api/strategies/${chance.pick(strategies).id}/fork`
  return adversaryOperationWithKey(
    'fork',
    pickUsableAdversaryKey(world, agentOf(world)),
    adversaryPostRequest(path),
  )
}

const createFleet: AdversaryOperationGenerator = (world) => {
  const agent = agentOf(world)
  const ask = adversaryPostRequest('/api/fleet/create', { name: `fleet ${world.nextNumber()}` })
  return adversaryOperationWithKey(
    'fleet',
    mainKeyOfAdversaryAgent(agent),
    ask,
    ({ status, body }) => {
      if (status >= 300) return
      agent.fleets.push(String(body['fleet_id']))
      world.unfundedFleets.push(String(body['fleet_id']))
    },
  )
}

const joinFleet: AdversaryOperationGenerator = (world) => {
  const owner = agentOf(world)
  const fleetId = owner.fleets.at(-1)
  if (fleetId === undefined) return null
  const member = agentOf(world)
  const json = {
    fleet_id: fleetId,
    agent_id: member.id,
    agent_key: mainKeyOfAdversaryAgent(member).secret,
  }
  return adversaryOperationWithKey(
    'join fleet',
    mainKeyOfAdversaryAgent(owner),
    adversaryPostRequest('/api/fleet/add-agent', json),
  )
}

/** Buys a pack that costs more than the starter credits. */
const installPack: AdversaryOperationGenerator = (world) => {
  const { chance } = world
  const key = pickUsableAdversaryKey(world, agentOf(world))
  const slug = chance.pick(['focus-stack', 'iagent-core'])
  return adversaryOperationWithKey(
    'pack',
    key,
    adversaryPostRequest('/api/packs/install', { slug }),
  )
}

/** Buys a task pass, and makes calls that it pays. */
const buyPass: AdversaryOperationGenerator = (world) => {
  const { chance } = world
  const key = pickUsableAdversaryKey(world, agentOf(world))
  const pass = chance.pick(['micro', 'micro', 'hour', 'day'] as const)
  const count = faceValueCounter(key, PASS_PRICES[pass], 201)
  const ask = adversaryPostRequest('/api/task/passes/buy', { pass })
  return adversaryOperationWithKey('pass', key, ask, ({ status }) => {
    count(status)
    if (status !== 201) return
    const spent = { tool: 'strategy_publish', title: 'x', description: 'x' }
    for (let call = 0; call < 3; call += 1)
      world.followUps.push(
        adversaryOperationWithKey('call', key, adversaryPostRequest('/api/refuel', spent)),
      )
  })
}
const PASS_PRICES = { micro: 1.5, hour: 2.5, day: 8 } as const

/** Operations that move value between agents or give it away. */
export const adversaryValueTransferOperationGenerators: Readonly<
  Record<string, AdversaryOperationGenerator>
> = {
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
  buyPass,
}
