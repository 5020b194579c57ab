import { DAY, utcDay } from '../../../core/clock.ts'
import {
  SERVICE_NAME,
  SERVICE_SUMMARY,
  SERVICE_TAGLINE,
  type DiscoveryDocumentInput,
} from './discovery-document-input.ts'

/** Documents that name the operator: they exist where `OPERATOR_CONTACT` is set. */

/** RFC 9116 recommends less than a year. */
const EXPIRES_AFTER_DAYS = 180

export interface OperatorContact {
  readonly publicUrl: string
  /** An e-mail address. */
  readonly email: string
}

/** The security contact of RFC 9116. It changes once a day, and expires half a year later. */
export function writeSecurityText({ publicUrl, email }: OperatorContact, now: number): string {
  const expires = `${utcDay(now + EXPIRES_AFTER_DAYS * DAY)}T00:00:00.000Z`
  return [
    `Contact: mailto:${encodeURI(email)}`,
    `Expires: ${expires}`,
    'Preferred-Languages: en',
    `Canonical: ${publicUrl}/.well-known/security.txt`,
    '',
  ].join('\n')
}

/** The plugin manifest that older model clients read. */
export function describeAiPlugin(
  { publicUrl, email }: OperatorContact,
  { tools }: Pick<DiscoveryDocumentInput, 'tools'>,
) {
  return {
    schema_version: 'v1',
    name_for_human: SERVICE_NAME,
    name_for_model: 'gas_station',
    description_for_human: SERVICE_TAGLINE,
    description_for_model: `${SERVICE_SUMMARY} ${tools.length} tools: ${publicUrl}/llms.txt lists them with their prices.`,
    auth: { type: 'user_http', authorization_type: 'bearer' },
    api: { type: 'openapi', url: `${publicUrl}/api/openapi.json` },
    logo_url: `${publicUrl}/embed/stats.svg`,
    contact_email: email,
    legal_info_url: `${publicUrl}/api/manifesto`,
  }
}
