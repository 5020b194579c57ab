import type { Test } from 'tap'
import { startTestTelegram, startTestMailServer } from './test-mail-and-telegram-servers.ts'
import { createTestClock } from '../actors/test-actor-node.ts'
import {
  startInProcessTestStation,
  type TestAgent,
  type InProcessStation,
} from '../station/start-test-station.ts'

/** Starts two nodes over one database with a mail server and a Telegram server. */
export async function startOwnerAlertNodes(t: Test) {
  const [mails, chats] = [await startTestMailServer(t), await startTestTelegram(t)]
  const chat = { TELEGRAM_BOT_TOKEN: chats.token, TELEGRAM_BASE: chats.base }
  const settings = { SMTP_URL: mails.url, ...chat }
  const clock = createTestClock()
  const one = await startInProcessTestStation(t, settings, { clock })
  const two = await startInProcessTestStation(t, settings, { clock, database: one.database })
  return { mails, chats, clock, one, two }
}

export const setOwnerContact = (main: InProcessStation, { key }: TestAgent, json: object) =>
  main.ask('POST', '/api/agent/set-contact', { key, json })
export const postAgentCreditTransfer = (
  main: InProcessStation,
  { key }: TestAgent,
  to: TestAgent,
  amount_usdc: number,
) => main.ask('POST', '/api/agent/send', { key, json: { to_agent_id: to.id, amount_usdc } })
