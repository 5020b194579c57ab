import { Type } from 'typebox'
import { TASK_PASS_KINDS } from '../../domain/prepaid-task-passes.ts'
import { DateTimeSchema, Nullable, ResponseUsdcAmountSchema, UuidSchema } from './shared-schemas.ts'

/** The form of a task pass in balances, quotes and purchases. */
export const TaskPassSchemaFields = {
  pass_id: UuidSchema,
  pass: Type.Enum([...TASK_PASS_KINDS]),
  calls: Type.Integer({ description: 'Calls bought.' }),
  calls_left: Type.Integer({ description: 'Calls that it still pays.' }),
  price_per_call_usdc: ResponseUsdcAmountSchema,
  expires_at: Nullable(DateTimeSchema),
}

export const TaskPassSchema = Type.Object(TaskPassSchemaFields)
