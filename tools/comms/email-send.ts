import Type from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { fromUsdc } from '../../core/money.ts'
import {
  SINGLE_LINE_TEXT_PATTERN,
  EMAIL_PATTERN,
  NOT_BLANK_PATTERN,
} from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool } from '../define-tool.ts'
import { assertNoStationMail } from '../../providers/mail/agent-mail.ts'
import type { Mailer, SuppressedMailbox } from '../../providers/mail/mail-port.ts'

/** The tool `email-send`: sends an e-mail. */

function assertMailConfigured(mail: Mailer | null): Mailer {
  if (mail !== null) return mail
  throw new ServiceError('provider_not_configured', {
    requires: ['SMTP_URL'],
    detail: 'This station has no mail server.',
  })
}

const toSuppressionDetails = ({ reason, smtpStatus, since, until }: SuppressedMailbox) => ({
  reason,
  detail:
    reason === 'asked'
      ? 'Its owner has unsubscribed.'
      : 'Its mail server reported an unknown mailbox.',
  ...(smtpStatus !== null && { smtp_status: smtpStatus }),
  since: since.toISOString(),
  until: until?.toISOString() ?? null,
})

export default defineTool({
  slug: 'email_send',
  name: 'Email Send',
  category: 'comms',
  description:
    'Sends one plain-text e-mail to one address, with a line that names its agent; ten a day an agent, paid from deposited credits when the mail server has accepted it, never sent twice.',
  tags: ['email', 'notify', 'smtp'],
  useCases: ['Report to a person', 'Send a receipt', 'Ask an owner for a decision'],
  examples: [
    {
      to: 'owner@example.com',
      subject: 'Daily report',
      body: 'Three tasks done, one is waiting for you.',
    },
  ],
  access: 'paid',
  keyRequired: true,
  price: fromUsdc(0.05),
  // Starter credits are free, and so would be mail to strangers.
  cashOnly: true,
  quota: { callsPerDay: 10 },
  effect: 'external',
  actsOnOthers: true,
  timeoutMs: 45_000,
  input: Type.Object(
    {
      to: Type.String({ pattern: EMAIL_PATTERN, maxLength: 254, description: 'One address.' }),
      subject: Type.String({
        minLength: 1,
        maxLength: 150,
        pattern: SINGLE_LINE_TEXT_PATTERN,
      }),
      body: Type.String({
        minLength: 1,
        maxLength: 20_000,
        pattern: NOT_BLANK_PATTERN,
        description: 'Plain text.',
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    status: Type.Enum(['accepted'], {
      description: 'The mail server has accepted it; delivery is not confirmed.',
    }),
    message_id: Type.String({ description: 'Part of its Message-ID.' }),
    to: Type.String(),
    timestamp: Type.String({ format: 'date-time' }),
  }),
  availability: ({ mail }) =>
    mail === null
      ? { available: false, mode: 'off', requires: ['SMTP_URL'], providers: [] }
      : { available: true, mode: 'live', requires: [], providers: ['smtp'] },
  async preflight({ to, subject, body }, { mail }) {
    const mailer = assertMailConfigured(mail)
    assertNoStationMail(subject, body, mailer.publicUrl)
    const why = await mailer.findSuppression(to)
    if (why !== null)
      throw new ServiceError('recipient_suppressed', { to, ...toSuppressionDetails(why) })
  },
  async run({ to, subject, body }, { mail, caller, callId, now, seal, signal, meter }) {
    const email = { id: callId, to, subject, text: body, agentId: caller.agentId ?? '' }
    meter.served('smtp', await assertMailConfigured(mail).send(email, seal, signal))
    const timestamp = now().toISOString()
    return { status: 'accepted' as const, message_id: callId, to, timestamp }
  },
})
