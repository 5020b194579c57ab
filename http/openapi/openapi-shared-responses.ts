import { ERROR_DEFINITIONS } from '../../core/errors.ts'
import type {
  JsonSchema,
  OpenApiDocument,
  OpenApiOperation,
  OpenApiResponse,
} from './openapi-document-types.ts'
import { openApiSchemaComponentRef } from './openapi-document-types.ts'

/** Headers and refusals that many operations share, as named components. */

const header = (description: string, example: string | number) => ({
  description,
  schema: { type: typeof example === 'number' ? 'integer' : 'string' },
  example,
})

export const OPENAPI_SHARED_HEADERS = {
  XRequestId: header(
    'The id of this request, in every answer. Problems repeat it as `instance`, the log of the operator as `reqId`.',
    '5f0c6e0a-8a0f-4b0e-9a53-0f6a3f0c2b11',
  ),
  RateLimit: header('What is left of the rate limit: requests and seconds.', '"key";r=97;t=1'),
  RateLimitPolicy: header('The rate limit: requests and the window in seconds.', '"key";q=100;w=2'),
  RetryAfter: header('Seconds after which a repetition may succeed.', 2),
  IdempotencyReplayed: header(
    '`true` where the answer of the first request with this Idempotency-Key is repeated.',
    'true',
  ),
  PaymentRequired: header(
    'What to pay, for x402 version 2: base64 of a JSON object with `accepts`. Absent while the station takes no such payments.',
    'eyJ4NDAyVmVyc2lvbiI6Mn0=',
  ),
  PaymentChallenge: header(
    'What to pay, for MPP: a `Payment` challenge. Absent while the station takes no such payments.',
    'Payment id="…", realm="…", method="tempo", intent="charge", request="…"',
  ),
  PaymentResponse: header(
    'What became of an x402 payment: base64 of a JSON object with `success`, `transaction` and `settlement_url`.',
    'eyJzdWNjZXNzIjp0cnVlfQ==',
  ),
  PaymentReceipt: header(
    'The receipt of an MPP payment that has settled.',
    'eyJzdGF0dXMiOiJzdWNjZXNzIn0',
  ),
} as const

type HeaderName = keyof typeof OPENAPI_SHARED_HEADERS

const headers = (names: Readonly<Record<string, HeaderName>>) =>
  Object.fromEntries(
    Object.entries(names).map(([name, component]) => [
      name,
      { $ref: `#/components/headers/${component}` },
    ]),
  )

const EVERYWHERE = { 'X-Request-Id': 'XRequestId' } as const
const LIMITED = { RateLimit: 'RateLimit', 'RateLimit-Policy': 'RateLimitPolicy' } as const

const problem = (
  description: string,
  code: keyof typeof ERROR_DEFINITIONS,
  more: Record<string, HeaderName> = {},
  schema = 'Problem',
): OpenApiResponse => ({
  description,
  headers: headers({ ...EVERYWHERE, ...more }),
  content: {
    'application/problem+json': {
      schema: openApiSchemaComponentRef(schema),
      example: exampleProblem(code),
    },
  },
})

/** A whole problem document of a code, without the members of one occurrence. */
function exampleProblem(code: keyof typeof ERROR_DEFINITIONS) {
  const { status, title }: { status: number; title: string } = ERROR_DEFINITIONS[code]
  return {
    type: `https://gas.example/problems/${code}`,
    title,
    status,
    detail: title,
    instance: 'urn:request:5f0c6e0a-8a0f-4b0e-9a53-0f6a3f0c2b11',
    code,
    error: code,
  }
}

export const OPENAPI_SHARED_RESPONSES: Readonly<Record<string, OpenApiResponse>> = {
  Refused: problem('The request was refused; `code` says why.', 'invalid_input'),
  PaymentRequired: problem(
    'Money is missing, or a limit in money was reached. Pay as a header or `accepts` says and repeat the request, fund the agent at `fund_url`, or raise the budget of the task. A refusal by a limit of the owner has no payment headers and no `accepts`.',
    'payment_required',
    { 'PAYMENT-REQUIRED': 'PaymentRequired', 'WWW-Authenticate': 'PaymentChallenge' },
    'PaymentRequired',
  ),
  TooManyRequests: problem(
    'Too many requests, or the free calls of the day are used up.',
    'rate_limited',
    {
      ...LIMITED,
      'Retry-After': 'RetryAfter',
    },
  ),
  Failed: problem(
    'The service or an upstream provider failed. Nothing was charged where it says `refunded`; else repeat with the same Idempotency-Key to learn the outcome.',
    'unavailable',
    { 'Retry-After': 'RetryAfter' },
  ),
}

const AcceptedPayment = {
  type: 'object',
  description: 'One way to pay, in x402 version 1; version 2 is in the header PAYMENT-REQUIRED.',
  required: ['scheme', 'network', 'maxAmountRequired', 'payTo', 'asset'],
  properties: {
    scheme: { type: 'string', description: 'Always `exact`.' },
    network: { type: 'string', description: 'The chain, by its x402 name.' },
    maxAmountRequired: { type: 'string', description: 'The price in atomic units of the asset.' },
    resource: { type: 'string', description: 'What is paid for.' },
    description: { type: 'string', description: 'What is paid for, in words.' },
    mimeType: { type: 'string', description: 'The media type of the answer.' },
    payTo: { type: 'string', description: 'The address that receives the payment.' },
    maxTimeoutSeconds: { type: 'integer', description: 'How long the payment has to stay valid.' },
    asset: { type: 'string', description: 'The contract of the token.' },
    extra: { type: 'object', additionalProperties: true, description: 'What a signature needs.' },
  },
}

/** The problem of a 402, with what a payer needs. */
export const PAYMENT_REQUIRED_SCHEMA: JsonSchema = {
  description: 'A problem, with the price in the form of x402 version 1.',
  allOf: [
    openApiSchemaComponentRef('Problem'),
    {
      type: 'object',
      properties: {
        x402Version: { type: 'integer', description: 'Always 1: version 2 is in the header.' },
        accepts: { type: 'array', items: AcceptedPayment, description: 'The ways to pay.' },
        agent_id: { type: 'string', description: 'The agent to fund, with a key.' },
        key_status: {
          type: 'string',
          enum: ['none', 'invalid', 'valid'],
          description: 'Whether the key that was sent works.',
        },
      },
    },
  ],
}

/** What the finished document has to know of a route. */
export interface DocumentedRoute {
  readonly method: string
  readonly access: string
  /** The call may cost something. */
  readonly pays: boolean
  readonly limited: boolean
}

/** Refers to the shared refusals, and names the headers of each success. */
export function addSharedResponses(operation: OpenApiOperation, route: DocumentedRoute): void {
  const { responses, summary } = operation
  for (const [status, response] of Object.entries(responses)) {
    if (status === '4XX') responses[status] = { $ref: '#/components/responses/Refused' }
    else if (status === '5XX') responses[status] = { $ref: '#/components/responses/Failed' }
    else if (!('$ref' in response)) {
      if (response.description === 'Default Response') response.description = `${summary}.`
      if (status >= '200') response.headers = successHeaders(route)
    }
  }
  responses['4XX'] ??= { $ref: '#/components/responses/Refused' }
  if (route.pays) responses['402'] = { $ref: '#/components/responses/PaymentRequired' }
  if (route.limited) responses['429'] = { $ref: '#/components/responses/TooManyRequests' }
}

const successHeaders = ({ method, pays, limited }: DocumentedRoute) =>
  headers({
    ...EVERYWHERE,
    ...(limited ? LIMITED : {}),
    ...(method === 'GET' ? {} : { 'Idempotency-Replayed': 'IdempotencyReplayed' }),
    ...(pays ? { 'PAYMENT-RESPONSE': 'PaymentResponse', 'Payment-Receipt': 'PaymentReceipt' } : {}),
  })

const SHARED_HEADERS = ['idempotency-key', 'x-task-id', 'x-ghost-mode', 'x-backpack-id']

/** Refers to the request headers that many operations take, and describes each once. */
export function moveRequestHeadersToOpenApiComponents(
  document: OpenApiDocument,
  operation: OpenApiOperation,
): void {
  if (operation.parameters === undefined) return
  operation.parameters = operation.parameters.map((parameter) => {
    if ('$ref' in parameter || !SHARED_HEADERS.includes(parameter.name)) return parameter
    const name = parameter.name.replace(/(?:^|-)(\w)/g, (_all, letter: string) =>
      letter.toUpperCase(),
    )
    document.components.parameters[name] ??= parameter
    return { $ref: `#/components/parameters/${name}` }
  })
}
