import {
  adversaryPostRequest,
  mainKeyOfAdversaryAgent,
  adversaryOperationWithKey,
  type AdversaryOperationGenerator,
} from './adversary-state.ts'

/** Operations of sellers and buyers on the marketplace. */

const PRICES = [0.1, 0.25, 0.333_333, 1] as const

/** Offers a memory, with or without promotional credits, and lets somebody buy it at once. */
const sellMemory: AdversaryOperationGenerator = (world) => {
  const { chance, agents, listings } = world
  const sellers = agents.filter(({ memories }) => memories.length > 0)
  if (sellers.length === 0) return null
  const seller = chance.pick(sellers)
  const json = {
    name: 'Notes',
    description: 'Notes on deployments.',
    entry_ids: [chance.pick(seller.memories)],
    price_usdc: chance.pick(PRICES),
    accepts_promo: chance.integer(0, 1) === 1,
  }
  const ask = adversaryPostRequest('/api/marketplace/list', json)
  return adversaryOperationWithKey(
    'sell',
    mainKeyOfAdversaryAgent(seller),
    ask,
    ({ status, body }) => {
      if (status === 200) listings.push({ id: String(body['pack_id']), seller })
    },
  )
}

/** Buys a listing, mostly with others at the same time; sometimes one's own. */
const buyListing: AdversaryOperationGenerator = (world) => {
  const { chance, agents, listings, followUps } = world
  if (listings.length === 0) return null
  const { id } = chance.pick(listings.slice(-6))
  const buyer = chance.pick(agents)
  const key = mainKeyOfAdversaryAgent(buyer)
  const ask = adversaryPostRequest(`/api/marketplace/buy/${id}`)
  return adversaryOperationWithKey('buy', key, ask, ({ status, body }) => {
    if (status !== 200) return
    buyer.memories.push(...(body['entry_ids'] as string[]))
    const rating = adversaryPostRequest(`/api/marketplace/rate/${id}`, { stars: 5 })
    followUps.push(
      adversaryOperationWithKey('rate', key, rating),
      adversaryOperationWithKey('buy', key, ask),
    )
  })
}

const withdrawListing: AdversaryOperationGenerator = (world) => {
  const { chance, agents, listings } = world
  if (listings.length === 0) return null
  const { id, seller } = chance.pick(listings.slice(-6))
  const agent = chance.integer(1, 4) === 1 ? chance.pick(agents) : seller
  const ask = { method: 'DELETE', path: `/api/marketplace/${id}` } as const
  return adversaryOperationWithKey('withdraw', mainKeyOfAdversaryAgent(agent), ask)
}

export const adversaryMemoryMarketplaceOperationGenerators: Readonly<
  Record<string, AdversaryOperationGenerator>
> = { sellMemory, buyListing, withdrawListing }
