import type { Spender } from '../../payments/agent-call-admission-request-types.ts'

/** Aggregates to load before spending. What has ended is still readable from Postgres. */
export const toSpenderPreload = ({
  backpackId,
  taskId,
}: Pick<Spender, 'backpackId' | 'taskId'>) => ({
  touch: [
    ...(backpackId === null ? [] : [{ kind: 'backpack' as const, id: backpackId }]),
    ...(taskId === null ? [] : [{ kind: 'taskSession' as const, id: taskId }]),
  ],
})
