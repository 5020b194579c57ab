import { Type } from 'typebox'
import {
  SCHEDULE_INTERVALS,
  type ScheduleInterval,
} from '../../actors/commands/schedule-aggregate-commands.ts'
import { DateTimeSchema, Nullable, ResponseUsdcAmountSchema } from './shared-schemas.ts'

/** Schemas of a schedule and of its last run. */

export const AnyObjectSchema = Type.Record(Type.String(), Type.Unknown())
const intervalNames = Object.keys(SCHEDULE_INTERVALS) as ScheduleInterval[]
export const ScheduleIntervalSchema = Type.Enum(
  intervalNames as [ScheduleInterval, ...ScheduleInterval[]],
)

const LastResultSchema = Type.Object({
  at: DateTimeSchema,
  slot: Type.String({ format: 'date-time', description: 'When the run was due.' }),
  ok: Type.Boolean(),
  result: Type.Optional(
    Type.Unknown({ description: "The tool's output; absent where it was too long to store." }),
  ),
  problem: Type.Optional(Type.Object({ code: Type.String(), title: Type.String() })),
  cost_usdc: ResponseUsdcAmountSchema,
  call_id: Nullable(Type.String()),
})

export const ScheduleSchema = Type.Object(
  {
    schedule_id: Type.String(),
    id: Type.String(),
    name: Type.String(),
    interval: ScheduleIntervalSchema,
    tool: Type.String(),
    params: Type.Record(Type.String(), Type.Unknown(), {
      description: 'Input of the tool; credentials are stored encrypted and shown as `[redacted]`.',
    }),
    budget_usdc: Type.Number({ description: 'Maximum cost of one run.' }),
    write_to_hive: Type.Boolean(),
    backpack_id: Nullable(Type.String({ description: 'The Backpack that its runs use.' })),
    enabled: Type.Boolean(),
    state: Type.Enum(['enabled', 'disabled', 'paused', 'cancelled']),
    runs: Type.Integer(),
    run_fee_usdc: Type.Number({ description: 'Cost of a run in addition to its tool.' }),
    created_at: DateTimeSchema,
    next_run_at: Nullable(DateTimeSchema),
    last_result: Nullable(LastResultSchema),
  },
  { $id: 'Schedule' },
)
