import {
  createBackpackCommand,
  getBackpackCommand,
  renewBackpackCommand,
  revokeBackpackCommand,
  REMOVABLE_BACKPACK_LIMITS,
  updateBackpackCommand,
} from '../../../actors/commands/backpacks-commands.ts'
import {
  cancelScheduleCommand,
  createScheduleCommand,
  failScheduleRunCommand,
  pauseSchedulesOfKeyCommand,
  resumeScheduleWithFleetPoolCommand,
  SCHEDULE_RUN_TIMER,
  updateScheduleCommand,
} from '../../../actors/commands/schedule-aggregate-commands.ts'
import {
  cancelTaskCommand,
  endTaskAggregateCommand,
  setTaskBudgetCommand,
  startTaskCommand,
} from '../../../actors/commands/task-session-actor-commands.ts'
import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import { DAY, MINUTE } from '../../../core/clock.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { asMicros, fromUsdc, ZERO_MICROS } from '../../../core/money.ts'
import { UNLIMITED_API_KEY_SPENDING } from '../../../domain/api-key-spending-limits.ts'
import {
  getAgentBalanceCommand,
  sendCreditsCommand,
  tipAgentCommand,
} from '../../../payments/commands/agent-account-commands.ts'
import {
  admitCallCommand,
  expireCallHoldCommand,
  failCallCommand,
  releaseCallHoldCommand,
  settleCallCommand,
} from '../../../payments/commands/call-commands.ts'
import { admitAndChargeFinishedCallCommand } from '../../../payments/commands/admit-and-charge-finished-call-command.ts'
import {
  callRowOfAdmission,
  failCallInputOfAdmission,
  sampleCallAdmissionRequest,
  settleCallInputOfAdmission,
  touchedAggregatesOfAdmission,
} from '../actors/test-actor-node.ts'
import { UNLIMITED_SPENDER } from '../actors/test-actor-node-pairs.ts'
import { creditTestCash } from '../ledger-model/ledger-model-test-commands.ts'
import {
  pickRandomFromLastEight,
  pickRecentOrMostlyNull,
  randomAmount,
  takeRandom,
  toRandomCommand,
  type DrawRandomCommand,
  type RandomAgent,
  type RandomCommandWorld,
} from './random-command-world.ts'

/** Random commands of agents, with their calls, tasks, Backpacks and schedules. */

function randomAdmission(world: RandomCommandWorld, agent: RandomAgent, isDurable: boolean) {
  const key = { ...UNLIMITED_API_KEY_SPENDING, id: agent.keyId, cap: fromUsdc(1_000) }
  return sampleCallAdmissionRequest(0, {
    callId: newUuidV7(world.now()),
    amount: randomAmount(world),
    key: world.chance.integer(0, 3) === 0 ? key : null,
    taskId: pickRecentOrMostlyNull(world, agent.tasks),
    backpackId: pickRecentOrMostlyNull(world, agent.backpacks),
    expiresAt: isDurable ? world.now() + world.chance.integer(5, 60) * MINUTE : null,
  })
}

const spend: DrawRandomCommand = (world, agent) => {
  const admission = randomAdmission(world, agent, false)
  const row = ({ at }: { at: number }) => callRowOfAdmission(admission, agent.id, { at })
  const more = { cost: admission.amount, rows: [], events: [], promoTransferable: true }
  const options = touchedAggregatesOfAdmission(admission)
  return toRandomCommand(
    agent.id,
    admitAndChargeFinishedCallCommand,
    { admission, row, ...more },
    { options },
  )
}

const admit: DrawRandomCommand = (world, agent) => {
  const admission = randomAdmission(world, agent, world.chance.integer(0, 3) > 0)
  const isInMemory = admission.expiresAt === null
  return toRandomCommand(agent.id, admitCallCommand, admission, {
    options: touchedAggregatesOfAdmission(admission),
    done: (_, node) => agent.calls.push({ admission, node: isInMemory ? node : null }),
  })
}

const endCall: DrawRandomCommand = (world, agent, other) => {
  const call = takeRandom(world, agent.calls)
  if (call === undefined) return null
  const { admission, node } = call
  const parts = { node, options: touchedAggregatesOfAdmission(admission) }
  const { callId, amount } = admission
  const way = world.chance.integer(0, 9)
  if (way === 0)
    return toRandomCommand(
      agent.id,
      failCallCommand,
      failCallInputOfAdmission(admission, agent.id),
      parts,
    )
  if (way < 3 && node === null)
    return toRandomCommand(
      agent.id,
      way === 1 ? releaseCallHoldCommand : expireCallHoldCommand,
      { callId },
      parts,
    )
  const cost = asMicros((amount * BigInt(world.chance.integer(0, 4))) / 4n)
  const share = { to: other.id, amount: asMicros(cost / 2n), withoutFee: way === 4 }
  const shares = way < 5 && share.amount > ZERO_MICROS && other !== agent ? [share] : []
  const input = settleCallInputOfAdmission(admission, agent.id, cost, { shares })
  return toRandomCommand(agent.id, settleCallCommand, input, parts)
}

const move: DrawRandomCommand = (world, agent, other) => {
  const input = {
    ...{ toAgentId: other.id, amount: randomAmount(world), memo: null },
    ...{ promoTransferable: world.chance.integer(0, 1) === 0, spender: UNLIMITED_SPENDER },
  }
  const command = world.chance.pick([sendCreditsCommand, tipAgentCommand])
  if (world.chance.integer(0, 4) > 0) return toRandomCommand(agent.id, command, input)
  const key = newUuidV7(world.now())
  const present = () => ({ status: 200, body: {} })
  const receipt = { operation: 'transfer', key, hash: 'hash', keyId: null, present }
  return toRandomCommand(agent.id, command, input, { options: { receipt, key }, isTwin: true })
}

const deposit: DrawRandomCommand = (_, { id }) => toRandomCommand(id, creditTestCash, fromUsdc(0.5))
const look: DrawRandomCommand = (_, { id }) => toRandomCommand(id, getAgentBalanceCommand, {})

const startTask: DrawRandomCommand = (world, agent) => {
  const input = { name: `task "${world.chance.integer(1, 9)}"/~`, budget: fromUsdc(0.2) }
  return toRandomCommand(agent.id, startTaskCommand, input, {
    done: ({ taskId }) => agent.tasks.push(taskId),
  })
}
const changeTask: DrawRandomCommand = (world, agent) => {
  const taskId = pickRandomFromLastEight(world, agent.tasks)
  if (taskId === null) return null
  const parts = { options: touchedAggregatesOfAdmission({ taskId, backpackId: null }) }
  const way = world.chance.integer(0, 3)
  if (way > 1) {
    const budget = asMicros(randomAmount(world) * 8n)
    return toRandomCommand(agent.id, setTaskBudgetCommand, { taskId, budget }, parts)
  }
  const command = way === 0 ? cancelTaskCommand : endTaskAggregateCommand
  return toRandomCommand(agent.id, command, { taskId }, parts)
}

const randomFuse = ({ chance }: RandomCommandWorld) => ({
  perCall: chance.pick([null, fromUsdc(0.02), fromUsdc(0.1)]),
  perDay: chance.pick([null, fromUsdc(0.1), fromUsdc(0.5)]),
  perMonth: chance.pick([null, fromUsdc(2)]),
})
const createBackpack: DrawRandomCommand = (world, agent) => {
  const pager = { webhookUrl: null, ownerEmail: null, ownerTelegram: null }
  const expiresAt = world.now() + world.chance.pick([DAY, 90 * DAY])
  const input = { agentName: 'scout', tools: null, fuse: randomFuse(world), pager, expiresAt }
  return toRandomCommand(agent.id, createBackpackCommand, input, {
    done: ({ backpackId }) => agent.backpacks.push(backpackId),
  })
}
const changeBackpack: DrawRandomCommand = (world, agent) => {
  const backpackId = pickRandomFromLastEight(world, agent.backpacks)
  if (backpackId === null) return null
  const parts = { options: touchedAggregatesOfAdmission({ taskId: null, backpackId }) }
  switch (world.chance.integer(0, 5)) {
    case 0:
      return toRandomCommand(agent.id, revokeBackpackCommand, { backpackId }, parts)
    case 1: {
      const expiresAt = world.now() + 30 * DAY
      return toRandomCommand(agent.id, renewBackpackCommand, { backpackId, expiresAt }, parts)
    }
    case 2:
      return toRandomCommand(agent.id, getBackpackCommand, { backpackId }, parts)
    default: {
      const tools = world.chance.pick([null, ['web_search'], ['web_search', 'price']])
      const remove = REMOVABLE_BACKPACK_LIMITS.slice(world.chance.integer(0, 4))
      const input = { backpackId, tools, fuse: randomFuse(world), remove }
      return toRandomCommand(agent.id, updateBackpackCommand, input, parts)
    }
  }
}

const createSchedule: DrawRandomCommand = (world, agent) => {
  const input = {
    ...{ name: 'every', interval: world.chance.pick(['5m', '1h', '1d'] as const) },
    ...{ tool: 'web_search', params: '{}', sealed: null, budget: fromUsdc(0.1) },
    ...{ writeToHive: false, keyId: agent.keyId, backpackId: null },
  }
  return toRandomCommand(agent.id, createScheduleCommand, input, {
    done: ({ scheduleId }) => agent.schedules.push(scheduleId),
  })
}
const changeSchedule: DrawRandomCommand = (world, agent) => {
  const scheduleId = pickRandomFromLastEight(world, agent.schedules)
  if (scheduleId === null) return null
  const parts = { options: { touch: [{ kind: 'schedule' as const, id: scheduleId }] } }
  const way = world.chance.integer(0, 7)
  if (way === 0) return toRandomCommand(agent.id, cancelScheduleCommand, { scheduleId }, parts)
  if (way === 1) {
    const input = { keyId: agent.keyId, reason: 'key_revoked' } as const
    return toRandomCommand(agent.id, pauseSchedulesOfKeyCommand, input)
  }
  if (way === 2) {
    const input = { scheduleId, pool: fromUsdc(1_000_000) }
    return toRandomCommand(agent.id, resumeScheduleWithFleetPoolCommand, input, parts)
  }
  const enabled = way < 6
  const input = { scheduleId, enabled, budget: randomAmount(world) }
  return toRandomCommand(agent.id, updateScheduleCommand, input, parts)
}

/** The timer of a schedule: each run fails, every third one for lack of credits. */
export const alwaysFailingScheduleRunTimer: AggregateCommand<
  { scheduleId: string; slot: number },
  void
> = {
  name: SCHEDULE_RUN_TIMER,
  kind: 'agent',
  apply(ctx, { scheduleId, slot }) {
    const code = (slot / MINUTE) % 3 < 1 ? 'payment_required' : 'upstream_error'
    const error = { code, needed: fromUsdc(1_000_000) } as const
    const nothing = { callId: null, cost: ZERO_MICROS, budget: ZERO_MICROS, result: null }
    failScheduleRunCommand.apply(ctx, { scheduleId, slot, at: ctx.now, error, ...nothing })
  },
}

/** Each with its weight. */
export const RANDOM_AGENT_COMMANDS: readonly (readonly [DrawRandomCommand, number])[] = [
  [spend, 16],
  [admit, 16],
  [endCall, 16],
  [move, 10],
  [deposit, 4],
  [look, 4],
  [startTask, 2],
  [changeTask, 6],
  [createBackpack, 1],
  [changeBackpack, 6],
  [createSchedule, 1],
  [changeSchedule, 5],
]
