import { Link } from "wouter";
import { Keys } from "./Keys";
import { Providers } from "./Providers";
import { SigningSecrets } from "./SigningSecrets";
import "../../components/form.css";
import "./settings.css";

/** Who may call the platform, whom it calls, and how it signs. */
export function SettingsPage() {
  return (
    <>
      <title>Settings · Agent RFT</title>
      <h1>Settings</h1>
      <Keys />
      <Providers />
      <SigningSecrets />
      <p className="muted">
        Base models are configured on the platform's host (<code>RFT_BASE_MODELS</code>), and so is the judge of graders
        (<code>RFT_JUDGE_BASE_URL</code>). What a check finds of a base model stands under{" "}
        <Link href="/models" className="in-text">
          Models
        </Link>
        .
      </p>
    </>
  );
}
