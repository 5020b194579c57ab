import { runDemoLedgerAuditChapter } from './demo-chapter-ledger-audit.ts'
import { runDemoEveryToolChapter } from './demo-chapter-every-tool.ts'
import type { DemoContext } from './demo-context.ts'
import { createDemoApiClient } from './demo-api-client.ts'
import {
  runDemoTipsAndFleetPoolChapter,
  runDemoFundingChapter,
} from './demo-chapter-funding-and-sharing.ts'
import { runDemoKeylessPaymentChapter } from './demo-chapter-keyless-payments.ts'
import { startDemoEnvironment, type DemoEnvironment } from './demo-environment.ts'
import {
  runDemoOnboardingChapter,
  runDemoLimitsChapter,
  runDemoToolsChapter,
} from './demo-chapter-onboarding-tools-limits.ts'

/** Runs the demo: starts a local environment, runs the chapters and audits the ledger. */

const seconds = () => process.uptime().toFixed(1)

console.log('A day of agents at the gas station, without a network and without provider keys.')
const environment = await startDemoEnvironment()
try {
  await runChapters(environment)
} catch (error) {
  // After a signal, failures are a consequence of the shutdown.
  if (process.exitCode === undefined) {
    console.error(`\nThe demo failed after ${seconds()} s: ${messageOf(error)}`)
    process.exitCode = 1
  }
} finally {
  await environment.stop()
}
if (process.exitCode === undefined) console.log(`\nFinished after ${seconds()} s.`)

async function runChapters({ url, bootLine }: DemoEnvironment): Promise<void> {
  console.log(`A local Base, a local Tempo and a station are up after ${seconds()} s.\n${bootLine}`)
  const demo: DemoContext = {
    environment,
    request: createDemoApiClient(url),
    settlements: new Set(),
  }
  const { mentor, scout } = await runDemoOnboardingChapter(demo)
  await runDemoToolsChapter(demo, scout, mentor)
  await runDemoLimitsChapter(demo, scout)
  await runDemoKeylessPaymentChapter(demo)
  const owner = await runDemoFundingChapter(demo, scout, mentor)
  await runDemoTipsAndFleetPoolChapter(demo, owner, scout, mentor)
  await runDemoEveryToolChapter(demo, scout)
  await runDemoLedgerAuditChapter(demo)
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : `${error.message} (${messageOf(error.cause)})`
}
