import { ServiceError } from '../../../core/errors.ts'
import type { ToolPreflightContext } from '../../define-tool.ts'
import { factCheckArithmetic } from './fact-check-arithmetic.ts'
import { factCheckChainIds } from './fact-check-chain-id-and-gas-token-claims.ts'
import {
  normalizeClaim,
  type FactClaimCheckFunction,
  type FactCheckFinding,
  type ClaimValue,
  type FactCheckContext,
} from './fact-claim-normalizer-and-finding-types.ts'
import { factCheckDates } from './fact-check-dates.ts'
import { factCheckBundledFacts } from './check-claim-against-bundled-facts.ts'
import { factCheckStationPrices } from './fact-check-station-prices.ts'
import { factCheckOnchainState } from './fact-check-onchain-state.ts'
import { factCheckAssetPrices } from './fact-check-asset-prices.ts'
import { factCheckTokenContracts } from './fact-check-token-contracts.ts'
import { factCheckUnitConversions } from './fact-check-unit-conversions.ts'

/** Checks one claim with all checkers. */

export type FactCheckVerdict = 'supported' | 'contradicted' | 'unverifiable'
export type HallucinationRisk = 'none' | 'low' | 'medium' | 'high' | 'critical'

export interface FactCheckResult {
  readonly claim: string
  readonly verdict: FactCheckVerdict
  readonly verified: boolean
  /** Confidence in the verdict, 0 to 1. */
  readonly confidence: number
  readonly hallucination_risk: HallucinationRisk
  readonly correct_value: ClaimValue | null
  readonly correction: string | null
  readonly context: string | null
  readonly checks: readonly { source: string; observed: ClaimValue | null; at: string }[]
}

/** Each matches the whole claim or returns null; the first match decides. */
const CHECKERS: readonly FactClaimCheckFunction[] = [
  factCheckDates,
  factCheckUnitConversions,
  factCheckArithmetic,
  factCheckChainIds,
  factCheckStationPrices,
  factCheckTokenContracts,
  factCheckOnchainState,
  factCheckBundledFacts,
  factCheckAssetPrices,
]

/** Time limit of the sources of a claim. */
const CLAIM_TIMEOUT_MS = 6_000

/** Checks a claim. A claim that cannot be verified is `unverifiable`, never an error. */
export async function factCheckClaim(
  claim: string,
  claimContext: FactCheckContext,
  asking: ToolPreflightContext,
): Promise<FactCheckResult> {
  const reading = normalizeClaim(claim)
  const found =
    reading === null
      ? null
      : await nullOnTimeout(runCheckers(reading.text, claimContext), claimContext)
  const at = claimContext.now.toISOString()
  if (found === null || found.holds === null) {
    const known = found === null ? [] : [{ source: found.source, observed: found.observed, at }]
    return unverifiable(claim, found, [...known, ...(await findHiveChecks(claim, asking))])
  }
  const holds = reading?.negated === true ? !found.holds : found.holds
  const checks = [{ source: found.source, observed: found.observed, at }]
  return holds ? supported(claim, found, checks) : contradicted(claim, found, checks)
}

async function runCheckers(
  text: string,
  claimContext: FactCheckContext,
): Promise<FactCheckFinding | null> {
  let unknown: FactCheckFinding | null = null
  for (const checker of CHECKERS) {
    const found = await checker(text, claimContext)
    if (found !== null && found.holds !== null) return found
    unknown ??= found
  }
  return unknown
}

/** Returns null when the sources fail or time out. */
async function nullOnTimeout(
  work: Promise<FactCheckFinding | null>,
  { signal }: FactCheckContext,
): Promise<FactCheckFinding | null> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, CLAIM_TIMEOUT_MS, null)
  })
  try {
    return await Promise.race([work, timeout])
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ServiceError) return null
    throw error
  } finally {
    clearTimeout(timer)
    work.catch(() => {})
  }
}

type ClaimChecks = FactCheckResult['checks']

const supported = (
  claim: string,
  { exact, context }: FactCheckFinding,
  checks: ClaimChecks,
): FactCheckResult => ({
  claim,
  verdict: 'supported',
  verified: true,
  confidence: exact ? 1 : 0.9,
  hallucination_risk: exact ? 'none' : 'low',
  correct_value: null,
  correction: null,
  context,
  checks,
})

const contradicted = (
  claim: string,
  found: FactCheckFinding,
  checks: ClaimChecks,
): FactCheckResult => ({
  claim,
  verdict: 'contradicted',
  verified: false,
  confidence: found.exact ? 1 : 0.9,
  hallucination_risk: found.exact ? 'critical' : 'high',
  correct_value: found.observed,
  correction: `It is ${String(found.observed)}. ${found.context}`,
  context: found.context,
  checks,
})

const HIVE_CONFIDENCE = 0.2

const unverifiable = (
  claim: string,
  found: FactCheckFinding | null,
  checks: ClaimChecks,
): FactCheckResult => ({
  claim,
  verdict: 'unverifiable',
  verified: false,
  confidence: checks.some(({ source }) => source.startsWith('hive:')) ? HIVE_CONFIDENCE : 0,
  hallucination_risk: 'medium',
  correct_value: null,
  correction: null,
  context: found?.context ?? 'No checker of this station can tell.',
  checks,
})

const MIN_HIVE_RELEVANCE = 0.6
const MAX_HIVE_ENTRIES = 3

/** Finds Hive entries about the claim: shown, but never enough for a verdict. */
async function findHiveChecks(
  claim: string,
  { evidence, text, now }: ToolPreflightContext,
): Promise<ClaimChecks> {
  try {
    const entries = await evidence.about(claim, { namespace: null, limit: MAX_HIVE_ENTRIES })
    const stances = await Promise.all(entries.map(({ content }) => text.stance(content, claim)))
    return entries.flatMap(({ id }, index) => {
      const stance = stances[index]
      if (stance === undefined || stance.relevance < MIN_HIVE_RELEVANCE || stance.value === 0)
        return []
      const observed = stance.value > 0 ? 'an entry agrees' : 'an entry disagrees'
      return [{ source: `hive:${id}`, observed, at: now().toISOString() }]
    })
  } catch (error) {
    if (error instanceof ServiceError) return []
    throw error
  }
}
