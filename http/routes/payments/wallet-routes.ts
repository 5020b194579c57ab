import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { toChecksumAddress } from '../../../chain/custody/custodial-wallets.ts'
import { ServiceError } from '../../../core/errors.ts'
import { toUsdc, ZERO_MICROS } from '../../../core/money.ts'
import { MIN_DEPOSIT } from '../../../domain/pricing.ts'
import { EVM_ADDRESS_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import { getAgentBalanceAndDepositsCommand } from '../../../payments/commands/agent-balance-and-pending-deposits-query.ts'
import type { ListedDeposit } from '../../../persistence/payments/deposit-store.ts'
import { WILDCARD_SCOPE } from '../../../persistence/agents/api-key-store.ts'
import type { IdempotentReply } from '../../../persistence/idempotency/idempotent-writes.ts'
import {
  sendIdempotentReply,
  toIdempotentRequest,
  parseIdempotencyKey,
} from '../../http-idempotency-keys.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  StrictBody,
  errorResponses,
  DateTimeSchema,
  toIsoTime,
  toIsoTimeOrNull,
  Nullable,
  schemaRef,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'
import type { HttpServices } from '../../http-config-and-service-types.ts'

/** Routes for an agent's custodial wallet (decisions 30 and 32). */

const tags = ['funds']
const read = { auth: 'key', scope: 'read' } as const
const RECENT_DEPOSITS = 5

const DepositRow = Type.Object(
  {
    deposit_id: UuidSchema,
    id: UuidSchema,
    state: Type.Enum(['provisional', 'final', 'reorged'], {
      description:
        'State of the transfer on the chain; final ones are irreversible. `credited_at` is set once it is credited.',
    }),
    amount_usdc: ResponseUsdcAmountSchema,
    from: Type.String(),
    wallet_address: Type.String(),
    tx_hash: Type.String(),
    log_index: Type.Integer(),
    block: Type.Integer(),
    bonus_usdc: Type.Number({ description: 'Promotional credits that came with it.' }),
    seen_at: DateTimeSchema,
    credited_at: Nullable(
      Type.String({
        format: 'date-time',
        description:
          'Null while the sum is below the minimum, and after a chain reorganisation removed it.',
      }),
    ),
  },
  { $id: 'Deposit' },
)
const DepositAddressSchema = Nullable(
  Type.String({ description: 'The deposit address; null while the wallet is being exported.' }),
)
const DepositModeSchema = Type.Enum(['on', 'off', 'paused'], {
  description: 'Deposits are credited only while this is on.',
})

const getWallet = {
  config: { ...read, bound: 'reads' } as const,
  schema: {
    operationId: 'getWallet',
    summary: 'Your deposit wallet on Base',
    tags,
    response: {
      200: Type.Object({
        wallet_address: DepositAddressSchema,
        network: Type.Object({
          chain: Type.String(),
          chain_id: Type.Integer(),
          asset: Type.String(),
          token: Type.String(),
        }),
        deposits: DepositModeSchema,
        usdc_on_chain: Nullable(
          Type.Number({ description: 'Balance of the wallet; credited funds are moved out.' }),
        ),
        gas: Type.Object({
          required: Type.Boolean(),
          status: Type.String(),
          reason: Type.String(),
        }),
        pending_usdc: Type.Number({
          description: 'Received deposits whose sum is below the minimum.',
        }),
        deposited_usdc: Type.Number({ description: 'All valid deposits.' }),
        minimum_usdc: ResponseUsdcAmountSchema,
        first_deposit_bonus: Type.Boolean({
          description:
            'The next credited deposit brings 25 %, at most 25 USDC: neither this agent nor its owner has had that bonus, and those of today are not used up.',
        }),
        recent_deposits: Type.Array(schemaRef(DepositRow)),
        fund_url: Type.String(),
      }),
      ...errorResponses,
    },
  },
}

const getWalletStatus = {
  config: { ...read, bound: 'reads' } as const,
  schema: {
    operationId: 'getWalletStatus',
    summary: 'Your balance and deposit address, without a chain query',
    tags,
    response: {
      200: Type.Object({
        wallet_address: DepositAddressSchema,
        deposits: DepositModeSchema,
        balance_usdc: Type.Number({ description: 'Available to spend.' }),
        promo_usdc: ResponseUsdcAmountSchema,
        cash_usdc: ResponseUsdcAmountSchema,
        held_usdc: ResponseUsdcAmountSchema,
        pending_usdc: ResponseUsdcAmountSchema,
        tier: Type.String(),
        fund_url: Type.String(),
      }),
      ...errorResponses,
    },
  },
}

const listDeposits = {
  config: read,
  schema: {
    operationId: 'listDeposits',
    summary: 'Deposits to your wallets',
    tags,
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        deposits: Type.Array(schemaRef(DepositRow)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const exportWallet = {
  config: { auth: 'key', scope: 'funds', secret: true } as const,
  schema: {
    operationId: 'exportWallet',
    summary: 'Export the private key of your wallet, once all credited funds have left it',
    description:
      'Repeats with the same API key, and the same Idempotency-Key or none, return the same for 24 hours, or until `POST /api/wallet/export/received`.',
    tags,
    body: StrictBody({
      confirm: Type.Optional(Type.Boolean({ description: 'Must be true.' })),
      confirm_wallet_address: Type.Optional(
        Type.String({
          pattern: EVM_ADDRESS_PATTERN,
          description:
            'The wallet to export, if another one of yours was exported within the last 24 hours.',
        }),
      ),
    }),
    response: {
      200: Type.Object({
        wallet_address: Type.String({
          description: 'Under your control only; deposits to it are no longer credited.',
        }),
        private_key: Type.String({
          description:
            'Keep it secret. No other route returns it, and the station deletes it within a day.',
        }),
        new_wallet_address: Type.String({ description: 'The new deposit address.' }),
        swept_usdc: Type.Number({
          description: 'Total credited funds moved out of the wallet.',
        }),
      }),
      ...errorResponses,
    },
  },
}

const receiveWallet = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'receiveWallet',
    summary: "Confirm receipt of an exported wallet's private key, so that the station deletes it",
    tags,
    body: StrictBody({ wallet_address: Type.String({ pattern: EVM_ADDRESS_PATTERN }) }),
    response: {
      200: Type.Object({ wallet_address: Type.String(), key_kept: Type.Boolean() }),
      ...errorResponses,
    },
  },
}

const NO_GAS_NEEDED = {
  required: false,
  status: 'not_needed',
  reason:
    'The wallet only signs: the service submits what moves money out of it and pays the gas. Send no ETH.',
}

/** Wallet, deposits, and export of the private key. */
export const walletRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { deposits } = services
  app.addSchema(DepositRow)

  app.get('/api/wallet', getWallet, async ({ agentId }) => readWallet(services, agentId))

  app.get('/api/wallet/status', getWalletStatus, async ({ agentId }) =>
    readCredits(services, agentId),
  )

  app.get('/api/wallet/deposits', listDeposits, async ({ agentId, query }) => {
    const { rows, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.uuid,
      (limit, before) => deposits.listOf(agentId, limit, before),
      ({ id }) => id,
    )
    return { deposits: rows.map(presentDeposit), count: rows.length, next_cursor }
  })

  app.post('/api/wallet/export', exportWallet, async (request, reply) => {
    const keyId = assertUnrestrictedKey(request)
    if (request.body.confirm !== true) throw new ServiceError('confirmation_required')
    reply.header('cache-control', 'no-store')
    return exportWalletKey(services, request, reply, keyId)
  })

  app.post('/api/wallet/export/received', receiveWallet, async (request, reply) => {
    const { wallet_address: address } = request.body
    assertUnrestrictedKey(request)
    return sendIdempotentReply(reply, deleteExportedKey(services, request, address))
  })
}

const fundUrlOf = ({ config }: HttpServices, agentId: string) =>
  `${config.publicUrl}/fund/${agentId}`

async function readFundStatus({ funding }: HttpServices, agentId: string) {
  const status = await funding.status(agentId)
  if (status === null) throw new ServiceError('agent_not_found')
  return status
}

async function readWallet(services: HttpServices, agentId: string) {
  const { actors, deposits, funding } = services
  const status = await readFundStatus(services, agentId)
  const [held, { pending, bonusAhead }, total, recent, bonusLeft] = await Promise.all([
    status.address === null ? null : funding.onChain(status.address),
    actors.ask(agentId, getAgentBalanceAndDepositsCommand, {}),
    deposits.totalOf(agentId),
    deposits.listOf(agentId, RECENT_DEPOSITS, null),
    funding.bonusLeft(agentId),
  ])
  const { token, chainId } = funding
  return {
    wallet_address: status.address,
    network: { chain: 'base', chain_id: chainId, asset: 'USDC', token },
    deposits: status.deposits,
    usdc_on_chain: held === null ? null : toUsdc(held),
    gas: NO_GAS_NEEDED,
    pending_usdc: toUsdc(pending),
    deposited_usdc: toUsdc(total),
    minimum_usdc: toUsdc(MIN_DEPOSIT),
    first_deposit_bonus: bonusAhead && bonusLeft !== null && bonusLeft > ZERO_MICROS,
    recent_deposits: recent.map(presentDeposit),
    fund_url: fundUrlOf(services, agentId),
  }
}

async function readCredits(services: HttpServices, agentId: string) {
  const [status, credits] = await Promise.all([
    readFundStatus(services, agentId),
    services.actors.ask(agentId, getAgentBalanceAndDepositsCommand, {}),
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
    fund_url: fundUrlOf(services, agentId),
  }
}

/** Returns the wallet with its private key. The reply stored for replays holds the wallet only. */
async function exportWalletKey(
  { once, walletExports }: HttpServices,
  request: FastifyRequest,
  reply: FastifyReply,
  keyId: string,
) {
  const { agentId } = request
  const answered = await once.runThenRecord(toIdempotentRequest(request), async () => {
    const { confirm_wallet_address: meant = null } = request.body as {
      confirm_wallet_address?: string
    }
    const asker = { agentId, keyId, key: parseIdempotencyKey(request), meant }
    const { address, newAddress, swept } = await walletExports.handOver(asker)
    const exported = {
      wallet_address: address,
      new_wallet_address: newAddress,
      swept_usdc: toUsdc(swept),
    }
    return { status: 200, body: exported }
  })
  const exported = answered.body as Record<'wallet_address' | 'new_wallet_address', string> & {
    swept_usdc: number
  }
  // The private key is derived each time and never stored.
  const privateKey = await walletExports.keyOf(agentId, exported.wallet_address)
  if (privateKey === null)
    throw new ServiceError('wallet_not_found', { detail: KEY_DELETED_DETAIL })
  if (answered.replayed) reply.header('idempotency-replayed', 'true')
  return { ...exported, private_key: privateKey }
}

const deleteExportedKey = (
  { once, walletExports }: HttpServices,
  request: FastifyRequest,
  address: string,
): Promise<IdempotentReply> =>
  once.runThenRecord(toIdempotentRequest(request), async () => {
    if (!(await walletExports.received(request.agentId, address)))
      throw new ServiceError('wallet_not_found')
    return { status: 200, body: { wallet_address: toChecksumAddress(address), key_kept: false } }
  })

const KEY_DELETED_DETAIL =
  'This request has been answered, and the key of the wallet is not kept any more. Another Idempotency-Key exports the present wallet.'

/** Throws for a key with limits: the wallet's key gives access to all its funds (decision 32). */
function assertUnrestrictedKey(request: FastifyRequest): string {
  const { apiKey } = request
  if (apiKey !== null && apiKey.scopes.includes(WILDCARD_SCOPE)) return apiKey.id
  const detail = 'Only a key that may do everything can export the wallet.'
  throw new ServiceError('insufficient_scope', { detail, scope: WILDCARD_SCOPE })
}

const presentDeposit = (deposit: ListedDeposit) => ({
  deposit_id: deposit.id,
  id: deposit.id,
  state: deposit.state,
  amount_usdc: toUsdc(deposit.amount),
  from: toChecksumAddress(deposit.from),
  wallet_address: toChecksumAddress(deposit.address),
  tx_hash: deposit.tx,
  log_index: deposit.logIndex,
  block: Number(deposit.block),
  seen_at: toIsoTime(deposit.seenAt),
  bonus_usdc: toUsdc(deposit.bonus),
  credited_at: toIsoTimeOrNull(deposit.creditedAt),
})
