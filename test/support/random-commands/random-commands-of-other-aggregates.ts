import { MINUTE } from '../../../core/clock.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc, ZERO_MICROS } from '../../../core/money.ts'
import {
  cancelBountyCommand,
  claimBountyCommand,
  postBountyCommand,
} from '../../../payments/commands/bounty-commands.ts'
import { admitCallCommand } from '../../../payments/commands/call-commands.ts'
import {
  openCreditDropCommand,
  redeemCreditDropCommand,
} from '../../../payments/commands/credit-drop-commands.ts'
import {
  consumeFreeCallCommand,
  releaseFreeCallCommand,
  reserveFreeCallCommand,
} from '../../../payments/commands/daily-free-call-commands.ts'
import {
  drawFromFleetCommand,
  joinFleetCommand,
  topUpFleetCommand,
} from '../../../payments/commands/fleet-commands.ts'
import { leaveFleetCommand } from '../../../payments/commands/leave-fleet-commands.ts'
import {
  claimPaymentCommand,
  deliverPaidCallsCommand,
  expirePaymentClaimCommand,
  settlementLoadOptions,
  toPayerAggregateId,
  toSettlementId,
} from '../../../payments/commands/payment-claim-commands.ts'
import {
  recordPaymentSettledCommand,
  recordPaymentSubmittedCommand,
} from '../../../payments/commands/settlement-commands.ts'
import {
  callRowOfAdmission,
  sampleCallAdmissionRequest,
  touchedAggregatesOfAdmission,
} from '../actors/test-actor-node.ts'
import { UNLIMITED_SPENDER } from '../actors/test-actor-node-pairs.ts'
import {
  samplePaidCallOutcome,
  samplePaymentClaimInput,
  samplePayment,
} from '../payments/sample-payment-claims.ts'
import {
  pickRandomFromLastEight,
  randomAmount,
  takeRandom,
  toRandomCommand,
  type DrawRandomCommand,
} from './random-command-world.ts'

/** Random commands of fleets, bounties, drops, visitors and payers. */

const changeMembership: DrawRandomCommand = (_, agent) => {
  const { membership: before, id, fleetId } = agent
  if (before === 'unknown') return null
  agent.membership = 'unknown'
  if (before === 'outside')
    return toRandomCommand(
      fleetId,
      joinFleetCommand,
      { agentId: id },
      {
        done: () => (agent.membership = 'member'),
      },
    )
  const input = { fleetId: null, removedBy: null }
  return toRandomCommand(id, leaveFleetCommand, input, {
    done: () => (agent.membership = 'outside'),
  })
}

/** Half of the loans are used by a call; the others return to the pool when they expire. */
const drawFromFleet: DrawRandomCommand = (world, agent) => {
  const [id, callId] = [newUuidV7(world.now()), newUuidV7(world.now())]
  const amount = randomAmount(world)
  const expiresAt = world.now() + 30 * MINUTE
  const admission = {
    ...sampleCallAdmissionRequest(0, { callId, amount, expiresAt }),
    lent: amount,
  }
  const input = { id, agentId: agent.id, callId, amount }
  const isUsed = world.chance.integer(0, 1) === 0
  return toRandomCommand(agent.fleetId, drawFromFleetCommand, input, {
    done: () => void (isUsed && agent.loans.push(admission)),
  })
}
const admitWithLoan: DrawRandomCommand = (world, agent) => {
  const admission = takeRandom(world, agent.loans)
  if (admission === undefined) return null
  return toRandomCommand(agent.id, admitCallCommand, admission, {
    options: touchedAggregatesOfAdmission(admission),
    done: () => agent.calls.push({ admission, node: null }),
  })
}
const topUpFleet: DrawRandomCommand = (world, { fleetId }) => {
  const transfers = [{ logIndex: 0, amount: randomAmount(world) }]
  return toRandomCommand(fleetId, topUpFleetCommand, {
    tx: newUuidV7(world.now()),
    transfers,
    bonusLeft: fromUsdc(1),
  })
}

const postBounty: DrawRandomCommand = (world, { id: posterId }) => {
  const input = {
    ...{ title: 'x', description: 'x', domain: 'x', requiredKeywords: [], minQuality: 50 },
    ...{ reward: randomAmount(world), ttlHours: world.chance.pick([1, 72]) },
    ...{ spender: UNLIMITED_SPENDER, promoTransferable: true },
  }
  return toRandomCommand(posterId, postBountyCommand, input, {
    done: ({ bounty }) => world.bounties.push({ id: bounty.bountyId, posterId }),
  })
}
const endBounty: DrawRandomCommand = (world, { id: agentId }) => {
  const bounty = pickRandomFromLastEight(world, world.bounties)
  if (bounty === null) return null
  if (world.chance.integer(0, 3) === 0)
    return toRandomCommand(bounty.id, cancelBountyCommand, { agentId: bounty.posterId })
  const quality = world.chance.pick([10, 80])
  const appraisal = { missing: [], quality, substance: quality, variety: 0 }
  return toRandomCommand(bounty.id, claimBountyCommand, { agentId, content: 'x', appraisal })
}

const useDrop: DrawRandomCommand = (world, { id: agentId }) => {
  const open = world.chance.integer(0, 9) === 0 ? null : pickRandomFromLastEight(world, world.drops)
  if (open !== null) return toRandomCommand(open, redeemCreditDropCommand, { agentId })
  const code = `RADIODROP-${newUuidV7(world.now())}`
  return toRandomCommand(
    code,
    openCreditDropCommand,
    {},
    {
      options: { fresh: true },
      done: () => world.drops.push(code),
    },
  )
}

const FREE_CALL = { tool: 'web_search', limit: 10 }
const startFreeCall: DrawRandomCommand = (world, agent) => {
  const [visitor, callId] = [`visitor ${agent.id}`, newUuidV7(world.now())]
  return toRandomCommand(
    visitor,
    reserveFreeCallCommand,
    { ...FREE_CALL, callId },
    {
      done: (_, node) => world.freeCalls.push({ visitor, callId, node }),
    },
  )
}
const endFreeCall: DrawRandomCommand = (world) => {
  const call = takeRandom(world, world.freeCalls)
  if (call === undefined) return null
  const { visitor, callId, node } = call
  if (world.chance.integer(0, 3) === 0) {
    const nothing = { usedAt: null, row: null }
    const input = { callId, tool: FREE_CALL.tool, ...nothing }
    return toRandomCommand(visitor, releaseFreeCallCommand, input, { node })
  }
  const admission = sampleCallAdmissionRequest(0, { callId })
  const row = (at: number) =>
    callRowOfAdmission(admission, '', { agentId: null, cost: ZERO_MICROS, rail: 'none', at })
  const record = { row, rows: [], events: [] }
  return toRandomCommand(
    visitor,
    consumeFreeCallCommand,
    { ...FREE_CALL, callId, record },
    { node },
  )
}

const claimPayment: DrawRandomCommand = (world, agent) => {
  const from = `0x${agent.id.replaceAll('-', '').slice(0, 32)}00000000` as const
  const validBefore = BigInt(Math.floor(world.now() / 1_000)) + 3_600n
  const amount = randomAmount(world)
  const payment = samplePayment(0, { from, validBefore, amount, price: amount })
  const claimed = samplePaymentClaimInput(payment, {
    callId: newUuidV7(world.now()),
    expiresAt: world.now() + 20 * MINUTE,
  })
  return toRandomCommand(toPayerAggregateId(payment), claimPaymentCommand, claimed, {
    options: settlementLoadOptions(toSettlementId(payment)),
    done: () => world.payments.push({ claimed, steps: 0 }),
  })
}
/** Delivers a payment, sends it, settles it; some expire instead. */
const advancePayment: DrawRandomCommand = (world) => {
  const payment = pickRandomFromLastEight(world, world.payments)
  if (payment === null) return null
  const { claimed } = payment
  const to = toPayerAggregateId(claimed.payment)
  const settlement = toSettlementId(claimed.payment)
  const parts = {
    options: settlementLoadOptions(settlement),
    done: () => void (payment.steps += 1),
  }
  if (payment.steps === 0 && world.chance.integer(0, 3) === 0) {
    const input = { settlement, callId: claimed.callId }
    return toRandomCommand(to, expirePaymentClaimCommand, input, parts)
  }
  if (payment.steps === 0)
    return toRandomCommand(to, deliverPaidCallsCommand, samplePaidCallOutcome(claimed), parts)
  const txHash = `tx ${settlement}`
  if (payment.steps === 1)
    return toRandomCommand(to, recordPaymentSubmittedCommand, { settlement, txHash }, parts)
  const input = { settlement, tx: txHash, logIndex: 0, block: 101n }
  return toRandomCommand(to, recordPaymentSettledCommand, input, parts)
}

/** Each with its weight. */
export const RANDOM_COMMANDS_OF_OTHER_AGGREGATES: readonly (readonly [
  DrawRandomCommand,
  number,
])[] = [
  [changeMembership, 1],
  [drawFromFleet, 3],
  [admitWithLoan, 2],
  [topUpFleet, 1],
  [postBounty, 1],
  [endBounty, 2],
  [useDrop, 2],
  [startFreeCall, 3],
  [endFreeCall, 3],
  [claimPayment, 1],
  [advancePayment, 4],
]
