import { runLedgerAuditChapter } from './chapter-ledger-audit.ts'
import { runCatalogueChapter } from './chapter-catalogue.ts'
import type { DemoContext } from './demo-context.ts'
import { createDemoApiClient } from './api-client.ts'
import { runSharingChapter, runFundingChapter } from './chapter-funding.ts'
import { runPaymentChapter } from './chapter-payments.ts'
import { startDemoEnvironment, type DemoEnvironment } from './environment.ts'
import {
  runOnboardingChapter,
  runLimitsChapter,
  runToolsChapter,
} from './chapter-tools-and-limits.ts'

const seconds = () => process.uptime().toFixed(1)

console.log(
  "A day of agents at the gas station: no network, no keys, every answer the service's own.",
)
const world = await startDemoEnvironment()
try {
  await runChapters(world)
} catch (error) {
  // Broken off, whatever was going on goes wrong.
  if (process.exitCode === undefined) {
    console.error(`\nThe day went wrong after ${seconds()} s: ${messageOf(error)}`)
    process.exitCode = 1
  }
} finally {
  await world.stop()
}
if (process.exitCode === undefined) console.log(`\nThe day is over after ${seconds()} s.`)

async function runChapters({ url, bootLine }: DemoEnvironment): Promise<void> {
  console.log(`A local Base, a local Tempo and a station are up after ${seconds()} s.\n${bootLine}`)
  const day: DemoContext = {
    environment: world,
    request: createDemoApiClient(url),
    settlements: new Set(),
  }
  const { mentor, scout } = await runOnboardingChapter(day)
  await runToolsChapter(day, scout, mentor)
  await runLimitsChapter(day, scout)
  await runPaymentChapter(day)
  const owner = await runFundingChapter(day, scout, mentor)
  await runSharingChapter(day, owner, scout, mentor)
  await runCatalogueChapter(day, scout)
  await runLedgerAuditChapter(day)
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : `${error.message} (${messageOf(error.cause)})`
}
