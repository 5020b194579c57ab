import { LIMITS } from '../../core/limits.ts'
import type { Sql } from '../data-plane.ts'

/** Why an address gets no more letters. */
export interface MailSuppressionRecord {
  readonly reason: 'bounced' | 'asked'
  /** What its mail server answered, where one did. */
  readonly smtpStatus: number | null
  readonly since: Date
  /** Null: for good. */
  readonly until: Date | null
}

/** The addresses of all callers together, however they are spelt. */
export function createMailSuppressionStore(sql: Sql) {
  return {
    async of(address: string): Promise<MailSuppressionRecord | null> {
      const [row] = await sql<SuppressionRow[]>`
        select reason, smtp_status, at, at + make_interval(days => ${LIMITS.mailBounceDays}) as until
          from mail_suppressions where address = ${address.toLowerCase()}
           and (reason = 'asked' or at > now() - make_interval(days => ${LIMITS.mailBounceDays}))`
      return row === undefined ? null : fromRow(row)
    },

    /** A mail server has said that there is no such mailbox. Who wants no more letters stays so. */
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
