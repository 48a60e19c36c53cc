import { Component, type ReactNode } from "react";

interface Props {
  /** Another page begins anew. */
  page: string;
  children: ReactNode;
}

interface State {
  error: Error | null;
  page: string;
}

/** A page that fails leaves the rest usable, and says so. */
export class ErrorBoundary extends Component<Props, State> {
  override state: State = { error: null, page: this.props.page };

  static getDerivedStateFromError(error: Error): Partial<State> {
    return { error };
  }

  static getDerivedStateFromProps(props: Props, state: State): Partial<State> | null {
    return props.page === state.page ? null : { error: null, page: props.page };
  }

  override render(): ReactNode {
    if (this.state.error === null) return this.props.children;
    return (
      <div className="banner" role="alert">
        <strong>This page cannot be shown</strong>
        <span>{this.state.error.message}</span>
        <span className="spacer" />
        <button type="button" onClick={() => location.reload()}>
          Load it again
        </button>
      </div>
    );
  }
}
