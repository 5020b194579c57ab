import type { ServiceMutant } from './service-mutant.ts'

/** Mutations that give keys more permissions than their owner set, or reveal secrets of others. */
export const keyPermissionMutants: Readonly<Record<string, ServiceMutant>> = {
  guessable: {
    description:
      'a stranger gets the API key of another client that sent the same guessable Idempotency-Key',
    edits: [
      {
        file: 'http/http-idempotency-keys.ts',
        from: 'if (stranger) assertUnguessable(key)',
        to: '',
      },
    ],
    rules: ['secret-shown'],
    operationWeights: { onboardTwice: 1 },
    operations: 60,
  },
  rotate: {
    description: 'a narrow key gets a wide key with the Idempotency-Key of a rotation',
    edits: [
      {
        file: 'http/http-idempotency-keys.ts',
        from: 'routeOptions.config.secret === true ? (caller.key?.id ?? null) : null',
        to: 'null',
      },
    ],
    rules: ['narrow-key-widened', 'secret-shown'],
    operationWeights: { createKey: 2, rotateAndReplay: 1 },
    operations: 160,
  },
  handover: {
    description:
      'the private key of a wallet is shown to another key that sends the same Idempotency-Key',
    edits: [
      {
        file: 'http/routes/payments/wallet-routes.ts',
        from: "scope: 'funds', secret: true } as const",
        to: "scope: 'funds' } as const",
      },
    ],
    rules: ['secret-shown'],
    operationWeights: { createKey: 3, exportWallet: 1 },
    operations: 160,
  },
  lifts: {
    description: 'a bound key changes the fuse of its Backpack and leaves it',
    edits: [
      {
        file: 'http/plugins/auth.ts',
        from: 'await assertKeyBackpackBinding(use, services)',
        to: '',
      },
    ],
    rules: ['bound-key-escaped'],
    operationWeights: { createBackpack: 1, escape: 4 },
    operations: 120,
  },
  orphan: {
    description: 'schedules of a revoked key continue',
    edits: [
      {
        file: 'calls/schedule-runner.ts',
        from: 'if (successor.endReason !== null)\n    throw new ServiceError(successor.endReason, { key_id: successor.terms.id })',
        to: '',
      },
      {
        file: 'http/routes/agents/api-key-routes.ts',
        from: 'const paused_schedules = await pauseSchedules(services, key)',
        to: 'const paused_schedules: string[] = []',
      },
    ],
    rules: ['revoked-key-ran'],
    operationWeights: { orphanSchedule: 1, cheapCall: 4 },
    operations: 320,
  },
  face: {
    description: 'sends, tips and bounties of a bound key do not count in the fuse',
    edits: [
      {
        file: 'payments/commands/debit-transfers-tips-and-bounties.ts',
        from: 'if (spender.backpackId !== null && !isAgentFrozen(ctx))\n      chargeBackpack(ctx, spender.backpackId, { tool: permission, amount, reserved })',
        to: '',
      },
    ],
    rules: ['fuse-exceeded'],
    operationWeights: { createBackpack: 1, spendBound: 4 },
    operations: 200,
    depositors: 12,
  },
  names: {
    description: 'a name in the keyring of another agent answers differently from an unknown name',
    edits: [
      {
        file: 'persistence/agents/backpack-keyring-store.ts',
        from: 'and name = ${place.name}\n           and agent_id = ${place.agentId}`',
        to: 'and name = ${place.name}`',
      },
    ],
    rules: ['foreign-keyring', 'server-error'],
    operationWeights: { createBackpack: 1, keepSecret: 2 },
    operations: 60,
  },
  echo: {
    description: 'a keyring secret is returned in the address and the body of an answer',
    edits: [
      {
        file: 'providers/egress/guarded-egress-client.ts',
        from: 'const clean = createSecretRedactor(this.#secretsSent)',
        to: 'const clean = createSecretRedactor([])',
      },
    ],
    rules: ['secret-shown'],
    operationWeights: { createBackpack: 1, keepSecret: 2 },
    operations: 60,
  },
}
