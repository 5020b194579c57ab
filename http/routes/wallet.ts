import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { checksummed } from '../../chain/wallets.ts'
import { ServiceError } from '../../core/errors.ts'
import { toUsdc } from '../../core/money.ts'
import { SMALLEST_DEPOSIT } from '../../core/prices.ts'
import { EVM_ADDRESS } from '../../core/said.ts'
import { funds } from '../../payments/commands/funds.ts'
import type { ListedDeposit } from '../../persistence/deposits.ts'
import { ALL_SCOPES } from '../../persistence/keys.ts'
import type { Answered } from '../../persistence/once.ts'
import { answer, asked, idempotencyKey } from '../idempotency.ts'
import { CURSOR, page, Paging } from '../paging.ts'
import { demandUncapped } from '../plugins/auth.ts'
import {
  Body,
  failures,
  Instant,
  instant,
  maybeInstant,
  Nullable,
  ref,
  Usdc,
  Uuid,
} from '../schemas.ts'
import type { Services } from '../services.ts'

const tags = ['funds']
const read = { auth: 'key', scope: 'read' } as const
const RECENT = 5

const DepositRow = Type.Object(
  {
    deposit_id: Uuid,
    id: Uuid,
    state: Type.Enum(['provisional', 'final', 'reorged'], {
      description:
        'Of the transfer on the chain: final ones cannot be undone. `credited_at` says whether it was credited.',
    }),
    amount_usdc: Usdc,
    from: Type.String(),
    wallet_address: Type.String(),
    tx_hash: Type.String(),
    log_index: Type.Integer(),
    block: Type.Integer(),
    bonus_usdc: Type.Number({ description: 'Promotional credits that came with it.' }),
    seen_at: Instant,
    credited_at: Nullable(
      Type.String({
        format: 'date-time',
        description: 'Null while it waits below the minimum, and after the chain has undone it.',
      }),
    ),
  },
  { $id: 'Deposit' },
)
const Address = Nullable(
  Type.String({ description: 'Where deposits go; null while the wallet is being handed over.' }),
)
const Takes = Type.Enum(['on', 'off', 'paused'], {
  description: 'Send nothing unless it is on: it would not be credited.',
})

const getWallet = {
  config: { ...read, bound: 'reads' } as const,
  schema: {
    operationId: 'getWallet',
    summary: 'Your deposit wallet on Base',
    tags,
    response: {
      200: Type.Object({
        wallet_address: Address,
        network: Type.Object({
          chain: Type.String(),
          chain_id: Type.Integer(),
          asset: Type.String(),
          token: Type.String(),
        }),
        deposits: Takes,
        usdc_on_chain: Nullable(
          Type.Number({ description: 'In the wallet now; credited money is moved out of it.' }),
        ),
        gas: Type.Object({
          required: Type.Boolean(),
          status: Type.String(),
          reason: Type.String(),
        }),
        pending_usdc: Type.Number({ description: 'Arrived, and below the minimum together.' }),
        deposited_usdc: Type.Number({ description: 'All deposits that stand.' }),
        minimum_usdc: Usdc,
        first_deposit_bonus: Type.Boolean({
          description: 'The next credited deposit brings 25 %.',
        }),
        recent_deposits: Type.Array(ref(DepositRow)),
        fund_url: Type.String(),
      }),
      ...failures,
    },
  },
}

const getWalletStatus = {
  config: { ...read, bound: 'reads' } as const,
  schema: {
    operationId: 'getWalletStatus',
    summary: 'Your balance and deposit address, without asking the chain',
    tags,
    response: {
      200: Type.Object({
        wallet_address: Address,
        deposits: Takes,
        balance_usdc: Type.Number({ description: 'What can be spent now.' }),
        promo_usdc: Usdc,
        cash_usdc: Usdc,
        held_usdc: Usdc,
        pending_usdc: Usdc,
        tier: Type.String(),
        fund_url: Type.String(),
      }),
      ...failures,
    },
  },
}

const listDeposits = {
  config: read,
  schema: {
    operationId: 'listDeposits',
    summary: 'What arrived at your wallets',
    tags,
    querystring: Type.Object(Paging),
    response: {
      200: Type.Object({
        deposits: Type.Array(ref(DepositRow)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...failures,
    },
  },
}

const exportWallet = {
  config: { auth: 'key', scope: 'funds', secret: true } as const,
  schema: {
    operationId: 'exportWallet',
    summary: 'Take over your wallet: its private key, once all credited money has left it',
    description:
      'Repeated by the same API key, with the same Idempotency-Key or without one, it answers the same for 24 hours, or until `POST /api/wallet/export/received`.',
    tags,
    body: Body({
      confirm: Type.Optional(Type.Boolean({ description: 'Must be true.' })),
      confirm_wallet_address: Type.Optional(
        Type.String({
          pattern: EVM_ADDRESS,
          description:
            'The wallet to export, where another one of yours was exported within the last 24 hours.',
        }),
      ),
    }),
    response: {
      200: Type.Object({
        wallet_address: Type.String({ description: 'Yours alone now; nothing is credited to it.' }),
        private_key: Type.String({
          description: 'Keep it secret; no other route shows it, and in a day nobody here has it.',
        }),
        new_wallet_address: Type.String({ description: 'Where deposits go from now on.' }),
        swept_usdc: Type.Number({
          description: 'Credited money that has left the wallet, in all.',
        }),
      }),
      ...failures,
    },
  },
}

const receiveWallet = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'receiveWallet',
    summary: 'Say that you have the private key of an exported wallet: it is kept here no longer',
    tags,
    body: Body({ wallet_address: Type.String({ pattern: EVM_ADDRESS }) }),
    response: {
      200: Type.Object({ wallet_address: Type.String(), key_kept: Type.Boolean() }),
      ...failures,
    },
  },
}

const GAS = {
  required: false,
  status: 'not_needed',
  reason:
    'The wallet only signs: the service submits what moves money out of it and pays the gas. Send no ETH.',
}

/** An agent's custodial wallet (decisions 30 and 32). */
export const walletRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { deposits } = services
  app.addSchema(DepositRow)

  app.get('/api/wallet', getWallet, async ({ agentId }) => walletOf(services, agentId))

  app.get('/api/wallet/status', getWalletStatus, async ({ agentId }) =>
    creditsOf(services, agentId),
  )

  app.get('/api/wallet/deposits', listDeposits, async ({ agentId, query }) => {
    const { rows, next_cursor } = await page(
      query,
      CURSOR.uuid,
      (limit, before) => deposits.listOf(agentId, limit, before),
      ({ id }) => id,
    )
    return { deposits: rows.map(present), count: rows.length, next_cursor }
  })

  app.post('/api/wallet/export', exportWallet, async (request, reply) => {
    const keyId = demandWholeKey(request)
    if (request.body.confirm !== true) throw new ServiceError('confirmation_required')
    reply.header('cache-control', 'no-store')
    return handOver(services, request, reply, keyId)
  })

  app.post('/api/wallet/export/received', receiveWallet, async (request, reply) => {
    const { wallet_address: address } = request.body
    demandWholeKey(request)
    return answer(reply, forgetKey(services, request, address))
  })
}

const fundUrl = ({ config }: Services, agentId: string) => `${config.publicUrl}/fund/${agentId}`

async function statusOf({ funding }: Services, agentId: string) {
  const status = await funding.status(agentId)
  if (status === null) throw new ServiceError('agent_not_found')
  return status
}

async function walletOf(services: Services, agentId: string) {
  const { actors, deposits, funding } = services
  const status = await statusOf(services, agentId)
  const [held, { pending, bonusAhead }, total, recent] = await Promise.all([
    status.address === null ? null : funding.onChain(status.address),
    actors.ask(agentId, funds, {}),
    deposits.totalOf(agentId),
    deposits.listOf(agentId, RECENT, null),
  ])
  const { token, chainId } = funding
  return {
    wallet_address: status.address,
    network: { chain: 'base', chain_id: chainId, asset: 'USDC', token },
    deposits: status.deposits,
    usdc_on_chain: held === null ? null : toUsdc(held),
    gas: GAS,
    pending_usdc: toUsdc(pending),
    deposited_usdc: toUsdc(total),
    minimum_usdc: toUsdc(SMALLEST_DEPOSIT),
    first_deposit_bonus: bonusAhead,
    recent_deposits: recent.map(present),
    fund_url: fundUrl(services, agentId),
  }
}

async function creditsOf(services: Services, agentId: string) {
  const [status, credits] = await Promise.all([
    statusOf(services, agentId),
    services.actors.ask(agentId, funds, {}),
  ])
  return {
    wallet_address: status.address,
    deposits: status.deposits,
    balance_usdc: toUsdc(credits.available),
    promo_usdc: toUsdc(credits.promo),
    cash_usdc: toUsdc(credits.cash),
    held_usdc: toUsdc(credits.inUse),
    pending_usdc: toUsdc(credits.pending),
    tier: credits.tier,
    fund_url: fundUrl(services, agentId),
  }
}

/** The wallet with its key: what is kept for a repetition names the wallet alone. */
async function handOver(
  { once, walletExports }: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  keyId: string,
) {
  const { agentId } = request
  const answered = await once.after(asked(request), async () => {
    const { confirm_wallet_address: meant = null } = request.body as {
      confirm_wallet_address?: string
    }
    const asker = { agentId, keyId, key: idempotencyKey(request), meant }
    const { address, newAddress, swept } = await walletExports.handOver(asker)
    const told = {
      wallet_address: address,
      new_wallet_address: newAddress,
      swept_usdc: toUsdc(swept),
    }
    return { status: 200, body: told }
  })
  const told = answered.body as Record<'wallet_address' | 'new_wallet_address', string> & {
    swept_usdc: number
  }
  // The key itself is read anew each time and kept nowhere.
  const privateKey = await walletExports.keyOf(agentId, told.wallet_address)
  if (privateKey === null) throw new ServiceError('wallet_not_found', { detail: FORGOTTEN })
  if (answered.replayed) reply.header('idempotency-replayed', 'true')
  return { ...told, private_key: privateKey }
}

const forgetKey = (
  { once, walletExports }: Services,
  request: FastifyRequest,
  address: string,
): Promise<Answered> =>
  once.after(asked(request), async () => {
    if (!(await walletExports.received(request.agentId, address)))
      throw new ServiceError('wallet_not_found')
    return { status: 200, body: { wallet_address: checksummed(address), key_kept: false } }
  })

const FORGOTTEN =
  'This request has been answered, and the key of the wallet is not kept any more. Another Idempotency-Key exports the present wallet.'

/** Whoever has the wallet's key has its money: no key with limits may ask for it (decision 32). */
function demandWholeKey(request: FastifyRequest): string {
  const { apiKey } = request
  demandUncapped(request, 'export the wallet')
  if (apiKey !== null && apiKey.scopes.includes(ALL_SCOPES)) return apiKey.id
  const detail = 'Only a key that may do everything can export the wallet.'
  throw new ServiceError('insufficient_scope', { detail, scope: ALL_SCOPES })
}

const present = (deposit: ListedDeposit) => ({
  deposit_id: deposit.id,
  id: deposit.id,
  state: deposit.state,
  amount_usdc: toUsdc(deposit.amount),
  from: checksummed(deposit.from),
  wallet_address: checksummed(deposit.address),
  tx_hash: deposit.tx,
  log_index: deposit.logIndex,
  block: Number(deposit.block),
  seen_at: instant(deposit.seenAt),
  bonus_usdc: toUsdc(deposit.bonus),
  credited_at: maybeInstant(deposit.creditedAt),
})
