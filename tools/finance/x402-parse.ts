import Type from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { ZERO_MICROS } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool } from '../define-tool.ts'

/** The tool `x402-parse`: explains an x402 message of any version. */

const Nullable = <T extends Type.TSchema>(type: T) => Type.Union([type, Type.Null()])
const Anything = Type.Record(Type.String(), Type.Unknown())

export default defineTool({
  slug: 'x402_parse',
  name: 'x402 Parser',
  category: 'finance',
  description:
    'Reads x402 payment headers and 402 bodies of version 1 and 2 and returns the payment they ask for.',
  tags: ['x402', 'payments', 'parsing'],
  useCases: ['Read what a 402 answer asks for', 'Check a payment header before sending it'],
  examples: [
    {
      body: {
        x402Version: 1,
        error: 'payment required',
        accepts: [
          {
            scheme: 'exact',
            network: 'base',
            maxAmountRequired: '30000',
            resource: 'https://example.com/api/t/agent_see',
            description: 'agent_see',
            mimeType: 'application/json',
            payTo: '0x00000000000000000000000000000000000beef1',
            maxTimeoutSeconds: 300,
            asset: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913',
            extra: { name: 'USD Coin', version: '2' },
          },
        ],
      },
    },
  ],
  access: 'free',
  price: ZERO_MICROS,
  free: { perDay: 10, overage: null },
  effect: 'none',
  timeoutMs: 2_000,
  input: Type.Object(
    {
      header: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 16_384,
          pattern: NOT_BLANK_PATTERN,
          description: 'The value of one header.',
        }),
      ),
      body: Type.Optional(
        Type.Union([
          Anything,
          Type.String({ minLength: 1, maxLength: 65_536, pattern: NOT_BLANK_PATTERN }),
        ]),
      ),
      headers: Type.Optional(
        Type.Record(Type.String(), Type.String({ maxLength: 16_384 }), {
          description: 'All headers of a request or response.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    kind: Type.Enum(['payment_required', 'payment', 'settlement']),
    x402_version: Nullable(Type.Integer()),
    accepts: Type.Array(
      Type.Object({
        scheme: Nullable(Type.String()),
        network: Nullable(Type.String()),
        amount_atomic: Nullable(Type.String()),
        amount_usdc: Nullable(Type.Number()),
        asset: Nullable(Type.String()),
        pay_to: Nullable(Type.String()),
        resource: Nullable(Type.String()),
        max_timeout_seconds: Nullable(Type.Number()),
      }),
    ),
    payment: Nullable(Anything),
    valid: Type.Boolean(),
    problems: Type.Array(Type.String()),
  }),
  preflight(given) {
    if (Object.keys(given).length > 0) return
    throw new ServiceError('invalid_input', {
      detail: 'Send a header, a body or headers.',
      errors: [{ pointer: '', detail: 'must have header, body or headers' }],
    })
  },
  async run(given, { x402 }) {
    const { accepts, problems, ...reading } = x402.parse(given)
    const payment = reading.payment === null ? null : { ...reading.payment }
    return { ...reading, payment, accepts: [...accepts], problems: [...problems] }
  },
})
