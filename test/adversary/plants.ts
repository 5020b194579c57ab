import type { Profile } from './suite.ts'

/** A text of a source, that stands there once, and what takes its place. */
export interface Edit {
  readonly file: string
  readonly from: string
  readonly to: string
}

/** A bug for a copy of the service, and the operations that find it within seconds. */
export interface Plant {
  readonly says: string
  readonly edits: readonly Edit[]
  /** The rules of the suite that may name it. */
  readonly rules: readonly string[]
  readonly profile: Profile
  readonly operations: number
  /** How many agents have deposited; where nobody has, all cash is too much. */
  readonly depositors?: number
}

/** What a stream delivers leaves before its call has been charged. */
const UNHELD: Edit = {
  file: 'calls/perform.ts',
  from: 'const output = heldOutput(watcher.progress)',
  to: 'const output = { emit: watcher.progress, deliver: () => {} }',
}
/** A caller who leaves ends the call, and pays nothing for it. */
const LEFT: readonly Edit[] = [
  UNHELD,
  {
    file: 'calls/run.ts',
    from: 'return again ? [shutdown, request.signal] : [shutdown]',
    to: 'return [shutdown, request.signal]',
  },
  {
    file: 'calls/run.ts',
    from: "const stop = () => cut(new ServiceError('unavailable', { retry_after: 2 }))",
    to: "const stop = () => cut(new ServiceError('cancelled'))",
  },
]

/** Every bug that was found once, for a copy of the service as it is now. */
export const PLANTS: Readonly<Record<string, Plant>> = {
  exit: {
    says: 'a program that breaks its result file is refunded, and what it printed was sent',
    edits: [
      UNHELD,
      {
        file: 'tools/sandbox/host/python.ts',
        from: 'return resultIn(left) ?? {',
        to: 'return resultIn(left) ?? JSON.parse(left) ?? {',
      },
      {
        file: 'tools/sandbox/host/main.ts',
        from: 'if (!asked) throw error',
        to: 'throw error',
      },
      {
        file: 'tools/sandbox/child.ts',
        from: "if (!begun) return { kind: 'lost' }",
        to: "if (killed === null) return { kind: 'lost' }",
      },
    ],
    rules: ['delivered-unpaid'],
    profile: { printAndExit: 1 },
    operations: 24,
  },
  cut: {
    says: 'a connection that is cut once a program has printed gives its price back',
    edits: LEFT,
    rules: ['delivered-unpaid'],
    profile: { printAndCut: 1 },
    operations: 16,
  },
  pill: {
    says: 'a connection that is cut after a verdict gives its free check back',
    edits: LEFT,
    rules: ['delivered-unpaid'],
    profile: { cutPill: 1 },
    operations: 48,
  },
  bulk: {
    says: 'all agents of a batch begin with starter credits',
    edits: [
      {
        file: 'payments/accounts.ts',
        from: 'const given = startersFrom === null ? starter : ZERO',
        to: 'const given = starter',
      },
    ],
    rules: ['starter-credits'],
    profile: { onboardBulk: 1 },
    operations: 16,
  },
  guessable: {
    says: 'a stranger gets the API key of whoever sent the same guessable Idempotency-Key',
    edits: [
      {
        file: 'http/idempotency.ts',
        from: 'if (stranger) assertUnguessable(key)',
        to: '',
      },
    ],
    rules: ['secret-shown'],
    profile: { onboardTwice: 1 },
    operations: 60,
  },
  rotate: {
    says: 'a narrow key gets a wide one by the Idempotency-Key of a rotation',
    edits: [
      {
        file: 'http/idempotency.ts',
        from: 'routeOptions.config.secret === true ? (caller.key?.id ?? null) : null',
        to: 'null',
      },
    ],
    rules: ['narrow-key-widened', 'secret-shown'],
    profile: { createKey: 2, rotateAndReplay: 1 },
    operations: 160,
  },
  lifts: {
    says: 'a key that is bound to a Backpack changes its fuse, and leaves it',
    edits: [
      { file: 'http/plugins/auth.ts', from: 'await assertBinding(request, services)', to: '' },
    ],
    rules: ['bound-key-escaped'],
    profile: { createBackpack: 1, escape: 4 },
    operations: 120,
  },
  orphan: {
    says: 'the schedules of a key that was revoked go on',
    edits: [
      {
        file: 'calls/schedule-run.ts',
        from: 'if (heir.ended !== null) throw new ServiceError(heir.ended, { key_id: heir.terms.id })',
        to: '',
      },
      {
        file: 'http/routes/keys.ts',
        from: 'const paused_schedules = await pauseSchedules(services, key)',
        to: 'const paused_schedules: string[] = []',
      },
    ],
    rules: ['revoked-key-ran'],
    profile: { orphanSchedule: 1, cheapCall: 4 },
    operations: 320,
  },
  face: {
    says: 'what a bound key sends, tips and offers counts in no fuse',
    edits: [
      {
        file: 'payments/commands/outlay.ts',
        from: 'if (spender.backpackId !== null)\n      chargeBackpack(turn, spender.backpackId, { tool: permission, amount, reserved })',
        to: '',
      },
    ],
    rules: ['fuse-exceeded'],
    profile: { createBackpack: 1, spendBound: 4 },
    operations: 200,
    depositors: 12,
  },
}
