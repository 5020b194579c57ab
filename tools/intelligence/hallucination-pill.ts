import Type from 'typebox'
import { invalidInputError } from '../../core/errors.ts'
import { ZERO_MICROS } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { ChainNameField } from '../../providers/chain-data/chain-tool-schemas.ts'
import { defineTool } from '../define-tool.ts'
import {
  factCheckClaim,
  type HallucinationRisk,
  type FactCheckResult,
} from './hallucination-pill/fact-check-claim.ts'

/** The tool `hallucination-pill`: checks claims against sources. */

const MAX_CLAIMS = 10
const MAX_CLAIM_CHARS = 500
const PILL_VERSION = 'gas-station-hallucination-pills-v1'

const Claim = Type.String({ minLength: 1, maxLength: MAX_CLAIM_CHARS, pattern: NOT_BLANK_PATTERN })
const Value = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()])
const Text = Type.Union([Type.String(), Type.Null()])
const Result = {
  verified: Type.Boolean(),
  confidence: Type.Number({ minimum: 0, maximum: 1 }),
  hallucination_risk: Type.Enum(['none', 'low', 'medium', 'high', 'critical'] as const),
  correct_value: Value,
  correction: Text,
  context: Text,
  verdict: Type.Enum(['supported', 'contradicted', 'unverifiable'] as const),
  checks: Type.Array(Type.Object({ source: Type.String(), observed: Value, at: Type.String() })),
}

const RISKS: readonly HallucinationRisk[] = ['none', 'low', 'medium', 'high', 'critical']
const rank = ({ hallucination_risk: risk }: FactCheckResult): number => RISKS.indexOf(risk)

const present = ({ checks, ...rest }: FactCheckResult) => ({ ...rest, checks: [...checks] })

/**
 * Returns the worst verdict of all claims. Its confidence is the lowest among the claims that could be
 * verified; an unverifiable claim says nothing of the others.
 */
function summary(results: readonly FactCheckResult[]) {
  const [worst] = results.toSorted((one, other) => rank(other) - rank(one))
  if (worst === undefined) throw invalidInputError('/claim', 'or claims must be given')
  const { claim: _claim, ...fields } = present(worst)
  const judged = results.filter(({ verdict }) => verdict !== 'unverifiable')
  return {
    ...fields,
    verified: results.every(({ verified }) => verified),
    confidence:
      judged.length === 0 ? null : Math.min(...judged.map(({ confidence }) => confidence)),
    claims_judged: judged.length,
  }
}

/** Returns the distinct claims in request order. */
function listClaims({ claim, claims = [] }: { claim?: string; claims?: string[] }): string[] {
  const given = claim === undefined ? claims : [claim, ...claims]
  const pointer = claim === undefined ? '/claims' : '/claim'
  const named = [...new Set(given.map((one) => one.trim()).filter((one) => one !== ''))]
  if (named.length === 0) throw invalidInputError(pointer, 'must not be blank')
  if (named.length > MAX_CLAIMS)
    throw invalidInputError('/claims', `must be at most ${MAX_CLAIMS} with claim`)
  return named
}

export default defineTool({
  slug: 'hallucination_pill',
  name: 'Hallucination Pill',
  category: 'intelligence',
  description:
    'Checks claims against chains, prices, calendars, arithmetic, definitions and bundled facts. Claims it cannot check are unverifiable. The verdict of several claims is the worst one; `confidence` is the lowest of the judged claims, null without any.',
  tags: ['fact-check', 'claims', 'verification'],
  useCases: [
    'Check an answer before acting on it',
    'Verify an address or a chain id',
    'Catch a wrong sum',
  ],
  examples: [
    { claim: 'The chain id of Base is 8453' },
    { claims: ['17 * 23 = 391', 'There are 28 days in a week', '1 ETH is 10^18 wei'] },
  ],
  access: 'free',
  price: ZERO_MICROS,
  free: { perDay: 5, overage: null },
  effect: 'none',
  timeoutMs: 20_000,
  input: Type.Object(
    {
      claim: Type.Optional(Claim),
      claims: Type.Optional(Type.Array(Claim, { minItems: 1, maxItems: MAX_CLAIMS })),
      chain: Type.Optional(ChainNameField),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    pill_version: Type.String(),
    ...Result,
    confidence: Type.Union([Type.Number({ minimum: 0, maximum: 1 }), Type.Null()], {
      description:
        'The lowest confidence among the verifiable claims (supported or contradicted); null without one.',
    }),
    claims_judged: Type.Integer({ minimum: 0, maximum: MAX_CLAIMS }),
    results: Type.Array(Type.Object({ claim: Type.String(), ...Result })),
  }),
  preflight(input) {
    listClaims(input)
  },
  async run(input, context) {
    const { chain, prices, catalogue, signal, now, emit } = context
    const claimContext = {
      chain,
      prices,
      catalogue,
      signal,
      now: now(),
      home: input.chain ?? 'base',
    } as const
    const results = await Promise.all(
      listClaims(input).map(async (claim, at) => {
        const result = await factCheckClaim(claim, claimContext, context)
        emit({ type: 'partial', path: `/results/${at}`, value: present(result) })
        return result
      }),
    )
    return { pill_version: PILL_VERSION, ...summary(results), results: results.map(present) }
  },
})
