import { ServiceError } from '../../core/errors.ts'
import type { Asking } from '../define.ts'
import { arithmetic } from './arithmetic.ts'
import { chains } from './chains.ts'
import { readClaim, type Checker, type Finding, type Value, type World } from './claim.ts'
import { dates } from './dates.ts'
import { facts } from './facts.ts'
import { house } from './house.ts'
import { ledger } from './ledger.ts'
import { market } from './market.ts'
import { tokens } from './tokens.ts'
import { units } from './units.ts'

export type Verdict = 'supported' | 'contradicted' | 'unverifiable'
export type Risk = 'none' | 'low' | 'medium' | 'high' | 'critical'

export interface Verdicts {
  readonly claim: string
  readonly verdict: Verdict
  readonly verified: boolean
  /** How sure the verdict is. */
  readonly confidence: number
  readonly hallucination_risk: Risk
  readonly correct_value: Value | null
  readonly correction: string | null
  readonly context: string | null
  readonly checks: readonly { source: string; observed: Value | null; at: string }[]
}

/** Each reads the whole claim or none of it; the first that can tell decides. */
const CHECKERS: readonly Checker[] = [
  dates,
  units,
  arithmetic,
  chains,
  house,
  tokens,
  ledger,
  facts,
  market,
]

/** A claim waits no longer for its sources. */
const CLAIM_MS = 6_000

/** What can be said of a claim; what cannot be known is `unverifiable`, never an error. */
export async function checkClaim(claim: string, world: World, asking: Asking): Promise<Verdicts> {
  const reading = readClaim(claim)
  const found = reading === null ? null : await inTime(find(reading.text, world), world)
  const at = world.now.toISOString()
  if (found === null || found.holds === null) {
    const known = found === null ? [] : [{ source: found.source, observed: found.observed, at }]
    return unverifiable(claim, found, [...known, ...(await fromHive(claim, asking))])
  }
  const holds = reading?.negated === true ? !found.holds : found.holds
  const checks = [{ source: found.source, observed: found.observed, at }]
  return holds ? supported(claim, found, checks) : contradicted(claim, found, checks)
}

async function find(text: string, world: World): Promise<Finding | null> {
  let unknown: Finding | null = null
  for (const checker of CHECKERS) {
    const found = await checker(text, world)
    if (found !== null && found.holds !== null) return found
    unknown ??= found
  }
  return unknown
}

/** Null when the sources of a claim do not answer, or not in time. */
async function inTime(work: Promise<Finding | null>, { signal }: World): Promise<Finding | null> {
  let late: NodeJS.Timeout | undefined
  const patience = new Promise<null>((resolve) => {
    late = setTimeout(resolve, CLAIM_MS, null)
  })
  try {
    return await Promise.race([work, patience])
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ServiceError) return null
    throw error
  } finally {
    clearTimeout(late)
    work.catch(() => {})
  }
}

type Checks = Verdicts['checks']

const supported = (claim: string, { exact, context }: Finding, checks: Checks): Verdicts => ({
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

const contradicted = (claim: string, found: Finding, checks: Checks): Verdicts => ({
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

const WEAK = 0.2

const unverifiable = (claim: string, found: Finding | null, checks: Checks): Verdicts => ({
  claim,
  verdict: 'unverifiable',
  verified: false,
  confidence: checks.some(({ source }) => source.startsWith('hive:')) ? WEAK : 0,
  hallucination_risk: 'medium',
  correct_value: null,
  correction: null,
  context: found?.context ?? 'No checker of this station can tell.',
  checks,
})

const LIKELY = 0.6
const MOST_WITNESSES = 3

/** What agents have written of it: shown, and never enough for a verdict. */
async function fromHive(claim: string, { evidence, text, now }: Asking): Promise<Checks> {
  try {
    const entries = await evidence.about(claim, { namespace: null, limit: MOST_WITNESSES })
    const stances = await Promise.all(entries.map(({ content }) => text.stance(content, claim)))
    return entries.flatMap(({ id }, index) => {
      const stance = stances[index]
      if (stance === undefined || stance.relevance < LIKELY || stance.value === 0) return []
      const observed = stance.value > 0 ? 'an entry agrees' : 'an entry disagrees'
      return [{ source: `hive:${id}`, observed, at: now().toISOString() }]
    })
  } catch (error) {
    if (error instanceof ServiceError) return []
    throw error
  }
}
