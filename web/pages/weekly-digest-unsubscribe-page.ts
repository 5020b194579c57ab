import { html } from '../html-template-tag.ts'
import { renderHtmlPage } from './page-layout.ts'

/** Renders where the link of a weekly digest leads: nothing changes until its button is pressed. */

export interface DigestSubscriptionPageView {
  readonly email: string
  readonly isSubscribed: boolean
  /** Whether this answers a press of the button. */
  readonly isChanged: boolean
}

export const renderDigestSubscriptionPage = ({
  email,
  isSubscribed,
  isChanged,
}: DigestSubscriptionPageView): string =>
  renderHtmlPage({
    title: 'Weekly digests',
    main: html`<h1>Weekly digests</h1>
      <p class="lead" role="status">${toSentence({ email, isSubscribed, isChanged })}</p>
      <form method="post">
        ${
          isSubscribed
            ? html`<input type="hidden" name="List-Unsubscribe" value="One-Click" /><button>
                  Unsubscribe
                </button>`
            : html`<input type="hidden" name="subscribe" value="again" /><button class="quiet">
                  Send them again
                </button>`
        }
      </form>
      <p class="small dim">
        Alerts, such as low credits, are not digests: <a href="/owner">your agents</a> has their
        addresses.
      </p>`,
  })

function toSentence({ email, isSubscribed, isChanged }: DigestSubscriptionPageView): string {
  const address = maskAddress(email)
  if (!isSubscribed) return `${address} gets no${isChanged ? ' more' : ''} weekly digests.`
  return isChanged
    ? `${address} gets weekly digests again.`
    : `${address} gets a digest of each of its agents once a week.`
}

/** A letter and the host: a forwarded digest tells nobody the address. */
const maskAddress = (email: string): string =>
  `${email.slice(0, 1)}…${email.slice(email.indexOf('@'))}`
