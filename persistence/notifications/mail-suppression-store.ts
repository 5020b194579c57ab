import { LIMITS } from '../../core/limits.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Why an address gets no more mail. */
export interface MailSuppressionRecord {
  readonly reason: 'bounced' | 'asked'
  /** The reply of its mail server, if there was one. */
  readonly smtpStatus: number | null
  readonly since: Date
  /** Null: forever. */
  readonly until: Date | null
}

/** Stores suppressed addresses of all callers in normalized form. */
export function createMailSuppressionStore(sql: Sql) {
  return {
    async of(address: string): Promise<MailSuppressionRecord | null> {
      const [row] = await sql<SuppressionRow[]>`
        select reason, smtp_status, at, at + make_interval(days => ${LIMITS.mailBounceDays}) as until
          from mail_suppressions where address = ${address.toLowerCase()}
           and (reason = 'asked' or at > now() - make_interval(days => ${LIMITS.mailBounceDays}))`
      return row === undefined ? null : fromRow(row)
    },

    /** Records that the mailbox does not exist. An unsubscribed address stays unsubscribed. */
    async bounced(address: string, smtpStatus: number): Promise<void> {
      await sql`
        insert into mail_suppressions as s (address, reason, smtp_status)
        values (${address.toLowerCase()}, 'bounced', ${smtpStatus})
        on conflict (address) do update set smtp_status = excluded.smtp_status, at = excluded.at
         where s.reason = 'bounced'`
    },
  }
}

interface SuppressionRow {
  reason: MailSuppressionRecord['reason']
  smtp_status: number | null
  at: Date
  until: Date
}

const fromRow = ({ reason, smtp_status, at, until }: SuppressionRow): MailSuppressionRecord => ({
  reason,
  smtpStatus: smtp_status,
  since: at,
  until: reason === 'asked' ? null : until,
})
