import {
  adversaryPostRequest,
  mainKeyOfAdversaryAgent,
  adversaryOperationWithKey,
  type AdversaryCommunityTool,
  type AdversaryOperation,
  type AdversaryOperationGenerator,
  type AdversaryState,
} from './adversary-state.ts'

/** Operations of agents that sell tools to each other, with and without promotional credits. */

const PRICES = [0.001, 0.01, 0.033_333, 0.25, 1] as const
/** The last one answers no valid call. */
const ENDPOINTS = ['/tool/one', '/tool/two', '/tool/fails'] as const
const RECENT = 6
/** Names of numbers would look alike. */
const LETTERS = 'abcdefghij'

/** A name that no other tool may be mistaken for. */
const newSlug = ({ nextNumber }: AdversaryState): string =>
  `trade-${String(nextNumber())
    .split('')
    .map((digit) => LETTERS[Number(digit)])
    .join('')}`

/** Offers a tool; its proof may follow, and calls of it may come before. */
const registerTool: AdversaryOperationGenerator = (world) => {
  const { chance, agents, communityTools, followUps, tokens, site } = world
  const builder = chance.pick(agents)
  const slug = newSlug(world)
  const json = {
    slug,
    name: 'Trade',
    description: 'Sold by one adversary to another.',
    endpoint_url: `${site}${chance.pick(ENDPOINTS)}`,
    price_per_call_usdc: chance.pick(PRICES),
    accepts_promo: chance.integer(0, 1) === 1,
  }
  const ask = adversaryPostRequest('/api/tools/register', json)
  return adversaryOperationWithKey(
    'register tool',
    mainKeyOfAdversaryAgent(builder),
    ask,
    ({ status, body }) => {
      if (status !== 201) return
      const { endpoint_url } = json
      tokens.add((body['challenge'] as { token: string }).token)
      communityTools.push({ slug, builder, endpointUrl: endpoint_url })
      const proof = { method: 'PATCH', path: `/api/tools/${slug}`, json: { endpoint_url } } as const
      followUps.push(
        adversaryOperationWithKey('prove tool', mainKeyOfAdversaryAgent(builder), proof),
      )
    },
  )
}

/** Calls a tool, mostly with others at the same time; sometimes one's own. */
const invokeTool: AdversaryOperationGenerator = (world) => {
  const { chance, agents, communityTools } = world
  if (communityTools.length === 0) return null
  const { slug } = chance.pick(communityTools.slice(-RECENT))
  const json = { note: chance.integer(1, 9) }
  return adversaryOperationWithKey(
    'invoke',
    mainKeyOfAdversaryAgent(chance.pick(agents)),
    adversaryPostRequest(`/api/tools/${slug}/invoke`, json),
  )
}

/** Another price, other terms or the end of a tool; sometimes by an agent that it does not belong to. */
const changeTool: AdversaryOperationGenerator = (world) => {
  const { chance, agents, communityTools } = world
  if (communityTools.length === 0) return null
  const tool = chance.pick(communityTools.slice(-RECENT))
  const agent = chance.integer(1, 4) === 1 ? chance.pick(agents) : tool.builder
  return adversaryOperationWithKey(
    'change tool',
    mainKeyOfAdversaryAgent(agent),
    drawChange(world, tool),
  )
}

function drawChange(
  { chance }: AdversaryState,
  { slug, endpointUrl }: AdversaryCommunityTool,
): Pick<AdversaryOperation['request'], 'method' | 'path' | 'json'> {
  const path = `/api/tools/${slug}`
  const patch = (json: object) => ({ method: 'PATCH', path, json }) as const
  switch (chance.integer(1, 5)) {
    case 1:
      return { method: 'DELETE', path }
    case 2:
      return patch({ price_per_call_usdc: chance.pick(PRICES) })
    case 3:
      return patch({ endpoint_url: endpointUrl })
    default:
      return patch({ accepts_promo: chance.integer(0, 1) === 1 })
  }
}

export const adversaryCommunityToolOperationGenerators: Readonly<
  Record<string, AdversaryOperationGenerator>
> = { registerTool, invokeTool, changeTool }
